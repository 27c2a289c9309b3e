//! The flags of users: their tokens, and the cost of their passwords.

use std::sync::Arc;
use std::time::Duration;

use auth::{Jwt, JwtOptions, cost_or_default};

use zeroize::Zeroizing;

use super::configuration::{TTL_SECONDS, UserConfig};
use super::error::Error;
use super::gather::Gathered;
use super::values;
use crate::files::read_bytes;
use crate::tokens::Tokens;

const TOKEN: &str = "auth-token";
/// etcd's text for options that it refuses.
const INVALID: &str = "auth: invalid auth options";
/// Reads the flags, and the files that they name.
pub(super) fn read(gathered: &mut Gathered) -> Result<UserConfig, Error> {
    let tokens = tokens(gathered)?;
    let given = values::unsigned("bcrypt-cost", gathered.text("bcrypt-cost"))?;
    let given = u32::try_from(given).unwrap_or(u32::MAX);
    let bcrypt_cost = cost_or_default(given);
    if bcrypt_cost != given {
        gathered.warnings.push(format!(
            "--bcrypt-cost={given} is not between 4 and 31: using {bcrypt_cost}"
        ));
    }
    Ok(UserConfig {
        tokens: Arc::new(tokens),
        bcrypt_cost,
    })
}

fn tokens(gathered: &mut Gathered) -> Result<Tokens, Error> {
    let text = gathered.text(TOKEN).to_owned();
    let invalid = |why: &str| Error::bad(TOKEN, &text, format!("{INVALID}: {why}"));
    let (kind, options) = options(&text).map_err(invalid)?;
    match kind {
        "" => Ok(Tokens::Off),
        "simple" => Ok(Tokens::Simple {
            ttl_seconds: match values::unsigned("auth-token-ttl", gathered.text("auth-token-ttl"))?
            {
                0 => TTL_SECONDS,
                seconds => seconds,
            },
        }),
        "jwt" => {
            let options = JwtOptions::parse(&options);
            let options = options.ok_or_else(|| invalid("write sign-method=RS256, or another"))?;
            for unknown in &options.unknown {
                let warning = format!("--{TOKEN}: the option {unknown} means nothing");
                gathered.warnings.push(warning);
            }
            jwt(&text, &options)
        }
        _ => Err(invalid("write simple, or jwt with its options, or nothing")),
    }
}

/// Names and values of a token's options, as they are written.
type Pairs<'a> = Vec<(&'a str, &'a str)>;

/// The kind, and its options with their values.
fn options(text: &str) -> Result<(&str, Pairs<'_>), &'static str> {
    let mut parts = text.split(',');
    let kind = parts.next().unwrap_or_default();
    let mut options = Pairs::new();
    for part in parts {
        let pair = part
            .split_once('=')
            .filter(|(_, value)| !value.contains('='));
        let (name, value) = pair.ok_or("an option is written name=value")?;
        if options.iter().any(|(known, _)| *known == name) {
            return Err("an option is there twice");
        }
        options.push((name, value));
    }
    Ok((kind, options))
}

fn jwt(text: &str, options: &JwtOptions) -> Result<Tokens, Error> {
    let refused = |why: String| Error::bad(TOKEN, text, why);
    let file = |path: &Option<String>| {
        let path = path.as_ref().map(|path| {
            let read = read_bytes(path.as_ref());
            read.map(Zeroizing::new)
                .map_err(|error| refused(format!("{INVALID}: {path}: {error}")))
        });
        path.transpose()
    };
    let ttl = match &options.ttl {
        Some(ttl) => {
            values::duration(TOKEN, ttl).map_err(|_| refused(format!("{INVALID}: ttl")))?
        }
        None => Duration::from_secs(TTL_SECONDS),
    };
    let (public, private) = (file(&options.public_key)?, file(&options.private_key)?);
    let (public, private) = (public.as_ref(), private.as_ref());
    let jwt = Jwt::new(
        options.method,
        public.map(|bytes| &bytes[..]),
        private.map(|bytes| &bytes[..]),
    );
    Ok(Tokens::Jwt {
        jwt: Box::new(jwt.map_err(|error| refused(error.to_string()))?),
        ttl_seconds: ttl.as_secs(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing;

    fn refusal(text: &str) -> String {
        let flag = format!("--auth-token={text}");
        testing::refused(&[&flag])
    }

    #[test]
    fn kinds_and_their_options_are_read_as_etcd_reads_them() {
        let tokens = |text: &str| {
            let flag = format!("--auth-token={text}");
            testing::config(&[&flag, "--auth-token-ttl=7"]).users.tokens
        };
        assert!(matches!(*tokens(""), Tokens::Off));
        assert!(matches!(
            *tokens("simple"),
            Tokens::Simple { ttl_seconds: 7 }
        ));
        assert!(matches!(*tokens("simple,a=b"), Tokens::Simple { .. }));
        for bad in [
            "Simple",
            "jwt",
            "jwt,sign-method=none",
            "jwt,sign-method=RS256,sign-method=RS256",
            "jwt,sign-method=RS256=x",
            "jwt,sign-method",
            "jwt,sign-method=HS256,ttl=soon",
            "jwt,sign-method=HS256,priv-key=/nowhere",
        ] {
            let refusal = refusal(bad);
            assert!(refusal.contains(INVALID), "{bad}: {refusal}");
        }
        assert!(refusal("jwt,sign-method=RS256").contains("missing key data"));
    }

    #[test]
    fn a_cost_that_bcrypt_lacks_is_the_default_with_a_warning() {
        let config = testing::config(&["--bcrypt-cost=3"]);
        assert_eq!(config.users.bcrypt_cost, auth::COST_DEFAULT);
        assert!(
            config
                .warnings
                .iter()
                .any(|it| it.contains("--bcrypt-cost=3"))
        );
        assert_eq!(testing::config(&["--bcrypt-cost=4"]).users.bcrypt_cost, 4);
    }
}
