//! TLS and users of measured servers, as their clients meet them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcd_api::authpb::Permission;
use etcd_api::authpb::permission::Type;
use etcd_api::etcdserverpb::auth_client::AuthClient;
use etcd_api::etcdserverpb::{
    AuthEnableRequest, AuthRoleAddRequest, AuthRoleGrantPermissionRequest, AuthUserAddRequest,
    AuthUserGrantRoleRequest, AuthenticateRequest,
};
use hyper_util::rt::TokioIo;
use tls::{Authority, Connector, NamedFile, Request, SecureStream, Settings};
use tokio::net::TcpStream;
use tonic::codegen::http::Uri;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use super::remote::status_text;
use crate::targets::Failure;

/// The administrator, and the user of all clients; both have this password.
const ADMINISTRATOR: &str = "root";
const USER: &str = "bench";
const PASSWORD: &str = "bench";

/// Reaches servers through TLS and as a user, or without.
#[derive(Clone, Debug, Default)]
pub struct Access {
    secure: Option<Secure>,
    has_users: bool,
}

#[derive(Clone, Debug)]
struct Secure {
    connector: Arc<Connector>,
    authority: PathBuf,
}

impl Access {
    /// Access to servers with the certificates in this directory, if there is one, and with
    /// users, if `has_users`.
    pub fn new(certificates: Option<&Path>, has_users: bool) -> Result<Access, Failure> {
        let secure = certificates.map(|directory| {
            let authority = directory.join("ca.pem");
            let settings = Settings {
                trusted: Some(NamedFile {
                    option: "ca",
                    path: authority.clone(),
                }),
                ..Settings::default()
            };
            Connector::new(settings, &["h2"]).map(|connector| Secure {
                connector: Arc::new(connector),
                authority,
            })
        });
        Ok(Access {
            secure: secure.transpose()?,
            has_users,
        })
    }

    /// The connector of TLS; `None` without it.
    pub(super) fn connector(&self) -> Option<&Connector> {
        self.secure.as_ref().map(|secure| &*secure.connector)
    }

    /// Opens a connection.
    pub async fn connect(&self, endpoint: Endpoint) -> Result<Channel, tonic::transport::Error> {
        let Some(secure) = &self.secure else {
            return endpoint.connect().await;
        };
        let connector = Arc::clone(&secure.connector);
        let dial = move |uri: Uri| dial_securely(Arc::clone(&connector), uri);
        endpoint.connect_with_connector(service_fn(dial)).await
    }

    /// A token for the clients' user; `None` without users.
    pub async fn token(&self, channel: Channel) -> Result<Option<MetadataValue<Ascii>>, Failure> {
        if !self.has_users {
            return Ok(None);
        }
        let request = AuthenticateRequest {
            name: USER.to_owned(),
            password: PASSWORD.to_owned(),
        };
        let answer = AuthClient::new(channel).authenticate(request).await;
        let answer = answer.map_err(|status| format!("login: {}", status_text(&status)))?;
        Ok(Some(answer.into_inner().token.parse()?))
    }

    /// Creates the users, and switches their checks on.
    pub async fn create_users(&self, channel: Channel) -> Result<(), Failure> {
        if !self.has_users {
            return Ok(());
        }
        let made = create_users(AuthClient::new(channel)).await;
        Ok(made.map_err(|status| format!("creating users: {}", status_text(&status)))?)
    }

    /// The same as flags of etcd's benchmark.
    pub fn benchmark_flags(&self) -> Vec<String> {
        let authority = self.secure.as_ref().map(|secure| &secure.authority);
        let authority = authority.map(|path| format!("--cacert={}", path.display()));
        let user = self.has_users.then(|| format!("--user={USER}:{PASSWORD}"));
        authority.into_iter().chain(user).collect()
    }
}

async fn dial_securely(connector: Arc<Connector>, uri: Uri) -> io::Result<TokioIo<SecureStream>> {
    let socket = dial(&uri).await?;
    let secure = connector.connect(host_of(&uri), socket).await?;
    Ok(TokioIo::new(secure))
}

/// Connects to the host and port of a URL.
pub(super) async fn dial(url: &Uri) -> io::Result<TcpStream> {
    let port = url.port_u16().unwrap_or_default();
    let socket = TcpStream::connect((host_of(url), port)).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// The host of a URL; an IPv6 address without its brackets.
pub(super) fn host_of(url: &Uri) -> &str {
    let host = url.host().unwrap_or_default();
    host.trim_start_matches('[').trim_end_matches(']')
}

/// An administrator, and a user with a role that may read and write all keys.
async fn create_users(mut auth: AuthClient<Channel>) -> Result<(), tonic::Status> {
    for name in [ADMINISTRATOR, USER] {
        let user = AuthUserAddRequest {
            name: name.to_owned(),
            password: PASSWORD.to_owned(),
            ..AuthUserAddRequest::default()
        };
        auth.user_add(user).await?;
        let role = AuthRoleAddRequest {
            name: name.to_owned(),
        };
        auth.role_add(role).await?;
        let grant = AuthUserGrantRoleRequest {
            user: name.to_owned(),
            role: name.to_owned(),
        };
        auth.user_grant_role(grant).await?;
    }
    let all_keys = AuthRoleGrantPermissionRequest {
        name: USER.to_owned(),
        perm: Some(Permission {
            perm_type: Type::Readwrite as i32,
            key: vec![0].into(),
            range_end: vec![0].into(),
        }),
    };
    auth.role_grant_permission(all_keys).await?;
    auth.auth_enable(AuthEnableRequest {}).await?;
    Ok(())
}

/// Makes an authority and a certificate for servers of this machine: `ca.pem`, `server.pem` and
/// `server.key` in `directory`.
pub fn write_certificates(directory: &Path) -> Result<(), Failure> {
    let authority = Authority::new("inkstone-lab")?;
    let issued = authority.issue(&Request::new("server", &["localhost", "127.0.0.1"]))?;
    std::fs::create_dir_all(directory)?;
    std::fs::write(directory.join("ca.pem"), authority.certificate_pem())?;
    std::fs::write(directory.join("server.pem"), issued.certificate_pem)?;
    std::fs::write(directory.join("server.key"), issued.key_pem)?;
    Ok(())
}
