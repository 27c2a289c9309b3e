//! The user of the client verbs: etcdctl's flags and variables.

use super::password::{self, Secret};
use crate::failure::Failure;

/// Flags about the user.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct UserArguments {
    /// Make the call in the name of this user; without :PASSWORD it is asked for
    #[arg(
        long,
        global = true,
        env = "ETCDCTL_USER",
        hide_env_values = true,
        value_name = "NAME[:PASSWORD]",
        help_heading = "Connection"
    )]
    user: Option<Secret>,
    /// Password of --user, which is then a name, even with a colon in it. Other users of the
    /// machine may see the words of a command: prefer the variable
    #[arg(
        long,
        global = true,
        env = "ETCDCTL_PASSWORD",
        hide_env_values = true,
        value_name = "PASSWORD",
        help_heading = "Connection"
    )]
    password: Option<Secret>,
    /// Make the call with this token, instead of --user
    #[arg(
        long,
        global = true,
        env = "ETCDCTL_AUTH_JWT_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        help_heading = "Connection"
    )]
    auth_jwt_token: Option<Secret>,
}

/// How a connection proves its user.
#[derive(Debug)]
pub(crate) enum Login {
    User {
        name: String,
        password: Secret,
    },
    /// A token that was issued elsewhere.
    Token(Secret),
}

impl UserArguments {
    /// Arguments from other flags of a verb, with the same meaning.
    pub(crate) fn of(user: Option<Secret>, password: Option<Secret>) -> UserArguments {
        UserArguments {
            user,
            password,
            auth_jwt_token: None,
        }
    }

    /// The user of the flags, if they name one. Asks for the password if it is missing.
    pub(crate) fn login(self) -> Result<Option<Login>, Failure> {
        // As in etcdctl, an empty variable is none.
        let given = |text: Option<Secret>| text.filter(|text| !text.is_empty());
        let user = given(self.user);
        match (user, given(self.password), given(self.auth_jwt_token)) {
            (None, None, None) => Ok(None),
            (None, None, Some(token)) => Ok(Some(Login::Token(token))),
            (_, _, Some(_)) => Err(Failure::wrong_use(
                "--auth-jwt-token replaces --user and --password",
                "Name a token, or a user (ETCDCTL_AUTH_JWT_TOKEN, ETCDCTL_USER and \
                 ETCDCTL_PASSWORD count as well).",
            )),
            (None, Some(_), None) => Err(Failure::wrong_use(
                "--password needs --user",
                "Name the user with --user (or ETCDCTL_USER).",
            )),
            (Some(user), Some(password), None) => {
                let name = user.text().to_owned();
                Ok(Some(Login::User { name, password }))
            }
            (Some(user), None, None) => {
                let (name, password) = user.split();
                let password = password.map_or_else(|| password::ask(&name), Ok)?;
                Ok(Some(Login::User { name, password }))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(user: &str, password: &str, token: &str) -> Result<Option<Login>, Failure> {
        let given = |text: &str| Some(Secret::from(text.to_owned()));
        UserArguments {
            user: given(user),
            password: given(password),
            auth_jwt_token: given(token),
        }
        .login()
    }

    fn user(user: &str, password: &str) -> (String, String) {
        match login(user, password, "").unwrap() {
            Some(Login::User { name, password }) => (name, password.text().to_owned()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_password_is_the_flag_or_follows_the_first_colon() {
        let pair = |name: &str, password: &str| (name.to_owned(), password.to_owned());
        assert_eq!(user("a:b:c", ""), pair("a", "b:c"));
        assert_eq!(user("a:", ""), pair("a", ""));
        assert_eq!(user("a:b", "c"), pair("a:b", "c"));
    }

    #[test]
    fn empty_values_are_none() {
        assert!(login("", "", "").unwrap().is_none());
    }

    #[test]
    fn contradictions_are_wrong_use() {
        assert!(login("", "p", "").is_err());
        assert!(login("a:b", "", "t").is_err());
        assert!(matches!(login("", "", "t"), Ok(Some(Login::Token(_)))));
    }
}
