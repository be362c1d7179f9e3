/// The versions of an API group: three of them in each of ours.
macro_rules! api_versions {
    ($(#[$doc:meta])* $group:literal { $($(#[$about:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ApiVersion {
            $($(#[$about])* $variant,)*
        }

        impl ApiVersion {
            /// All of them, oldest first.
            pub const ALL: [Self; 3] = [$(Self::$variant),*];

            /// As it stands in `apiVersion`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($group, "/", $name),)*
                }
            }
        }

        impl std::fmt::Display for ApiVersion {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for ApiVersion {
            type Err = UnknownVersion;

            fn from_str(text: &str) -> Result<Self, UnknownVersion> {
                Self::ALL.into_iter().find(|version| version.as_str() == text).ok_or(UnknownVersion)
            }
        }

        /// A text names none of the versions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
        #[error("is not one of {}/v1, …/v1beta1 and …/v1alpha1", $group)]
        pub struct UnknownVersion;
    };
}

pub(crate) use api_versions;
