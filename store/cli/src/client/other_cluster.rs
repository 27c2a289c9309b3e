//! Flags that name a second cluster, beside that of `--endpoint`.

/// Defines the flags `--PREFIX-cert`, `-key`, `-cacert`, `-insecure-transport`, `-user` and `-password` of a
/// second cluster. `cluster` stands for it in the help, `heading` is the title of its flags.
macro_rules! other_cluster_flags {
    ($flags:ident, prefix: $prefix:literal, cluster: $cluster:literal, heading: $heading:literal) => {
        #[derive(Debug, clap::Args)]
        struct $flags {
            #[arg(
                id = concat!($prefix, "_cert"),
                long = concat!($prefix, "-cert"),
                value_name = "FILE",
                help = concat!("File with the certificate to show to the ", $cluster, ", as PEM"),
                help_heading = $heading
            )]
            cert: Option<std::path::PathBuf>,
            #[arg(
                id = concat!($prefix, "_key"),
                long = concat!($prefix, "-key"),
                value_name = "FILE",
                help = concat!("File with the private key of --", $prefix, "-cert, as PEM"),
                help_heading = $heading
            )]
            key: Option<std::path::PathBuf>,
            #[arg(
                id = concat!($prefix, "_cacert"),
                long = concat!($prefix, "-cacert"),
                value_name = "FILE",
                help = concat!(
                    "File with the authorities that sign the ", $cluster, "'s certificate, as PEM"
                ),
                help_heading = $heading
            )]
            cacert: Option<std::path::PathBuf>,
            #[arg(
                id = concat!($prefix, "_insecure_transport"),
                value_name = "BOOL",
                long = concat!($prefix, "-insecure-transport"),
                num_args = 0..=1,
                require_equals = true,
                default_missing_value = "true",
                default_value = "true",
                action = clap::ArgAction::Set,
                hide_default_value = true,
                hide_possible_values = true,
                help = concat!("With =false, a ", $cluster, " without a scheme is an https one"),
                help_heading = $heading
            )]
            insecure_transport: bool,
            #[arg(
                id = concat!($prefix, "_user"),
                long = concat!($prefix, "-user"),
                value_name = "NAME[:PASSWORD]",
                help = concat!("The user at the ", $cluster, "; without :PASSWORD it is asked for"),
                help_heading = $heading
            )]
            user: Option<crate::client::Secret>,
            #[arg(
                id = concat!($prefix, "_password"),
                long = concat!($prefix, "-password"),
                value_name = "PASSWORD",
                help = concat!(
                    "Password of --", $prefix, "-user, which is then a name, even with a colon in it"
                ),
                help_heading = $heading
            )]
            password: Option<crate::client::Secret>,
        }

        impl $flags {
            /// The endpoints at these URLs, with the time limits of the other cluster's.
            fn endpoints(
                self,
                urls: String,
                beside: &crate::client::ConnectionArguments,
            ) -> Result<crate::client::Endpoints, crate::failure::Failure> {
                let tls = crate::client::TlsArguments::of(
                    self.cacert,
                    self.cert,
                    self.key,
                    self.insecure_transport,
                    crate::client::FlagNames {
                        tls: ::tls::DialFlags {
                            trusted: concat!("--", $prefix, "-cacert"),
                            certificate: concat!("--", $prefix, "-cert"),
                            key: concat!("--", $prefix, "-key"),
                        },
                        user: concat!("--", $prefix, "-user NAME[:PASSWORD]"),
                    },
                );
                let user = crate::client::UserArguments::of(self.user, self.password);
                crate::client::Endpoints::new(beside.for_other(urls, tls, user))
            }
        }
    };
}

pub(crate) use other_cluster_flags;
