/// Defines the enum of an API group's versions and the error of parsing one.
macro_rules! api_versions {
    ($(#[$doc:meta])* $version_type:ident, $error_type:ident, $group:literal { $($(#[$about:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $version_type {
            $($(#[$about])* $variant,)*
        }

        impl $version_type {
            /// All versions, oldest first.
            pub const ALL: [Self; 3] = [$(Self::$variant),*];

            /// Returns the value of `apiVersion`.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($group, "/", $name),)*
                }
            }
        }

        impl std::fmt::Display for $version_type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $version_type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $version_type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl std::str::FromStr for $version_type {
            type Err = $error_type;

            fn from_str(text: &str) -> Result<Self, $error_type> {
                Self::ALL.into_iter().find(|version| version.as_str() == text).ok_or($error_type)
            }
        }

        /// Error of parsing an `apiVersion` that is not a known version of the API group.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
        #[error("unsupported apiVersion: must be {}/v1, …/v1beta1 or …/v1alpha1", $group)]
        pub struct $error_type;
    };
}

pub(crate) use api_versions;
