//! Matching of an image against a pattern of `matchImages` or a key of `auth`.

use std::fmt;

use crate::glob;
use crate::location::{LocationError, RegistryLocation};
use crate::name::ImageName;

/// Pattern for images: `*.dkr.ecr.*.amazonaws.com`, `registry.example:5000/team`.
///
/// Host labels are compared one by one; `*` matches any sequence of characters within one label. Ports must be equal or absent in
/// both. The path is a plain prefix, regardless of segments.
///
/// ```
/// use credlet_image::{ImagePattern, MatchTarget};
///
/// let pattern = ImagePattern::parse("*.example.com/team")?;
/// assert!(pattern.matches(&MatchTarget::parse("eu.example.com/team/app")?));
/// assert!(!pattern.matches(&MatchTarget::parse("example.com/team/app")?));
/// # Ok::<(), credlet_image::LocationError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImagePattern {
    text: String,
    location: RegistryLocation<'static>,
}

/// Parsed image that patterns are matched against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchTarget<'a> {
    /// `None` for a valid name with an invalid location, which no pattern matches.
    location: Option<RegistryLocation<'a>>,
}

impl<'a> MatchTarget<'a> {
    /// Parses an image without normalisation.
    ///
    /// # Errors
    /// If the text is not a registry location. No pattern matches it.
    pub fn parse(image: &'a str) -> Result<Self, LocationError> {
        Ok(Self { location: Some(RegistryLocation::parse(image.as_bytes())?) })
    }

    pub(crate) fn location(&self) -> Option<&RegistryLocation<'a>> {
        self.location.as_ref()
    }
}

impl<'a> From<&'a ImageName> for MatchTarget<'a> {
    /// A valid image name has no percent escapes.
    fn from(name: &'a ImageName) -> Self {
        let (host, path) = name.as_str().split_at(name.registry().len());
        // The grammar of names allows any digits and colons in brackets.
        let location = match host.starts_with('[') {
            true => RegistryLocation::parse(name.as_str().as_bytes()).ok(),
            false => Some(RegistryLocation { host: host.as_bytes().into(), path: path.as_bytes().into() }),
        };
        Self { location }
    }
}

impl ImagePattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// If the pattern is not a registry location. The kubelet rejects a configuration with such a pattern.
    pub fn parse(text: &str) -> Result<Self, LocationError> {
        Ok(Self { text: text.to_owned(), location: RegistryLocation::parse(text.as_bytes())?.into_owned() })
    }

    /// Parses a normalised key. It is percent-decoded a second time, as by the kubelet.
    pub(crate) fn from_key(key: &[u8]) -> Result<Self, LocationError> {
        Ok(Self {
            text: String::from_utf8_lossy(key).into_owned(),
            location: RegistryLocation::parse(key)?.into_owned(),
        })
    }

    /// Returns the text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether the pattern matches the image.
    pub fn matches(&self, target: &MatchTarget<'_>) -> bool {
        let Some(location) = target.location() else { return false };
        let (host, port) = self.location.host_and_port();
        let (target_host, target_port) = location.host_and_port();
        port == target_port
            && labels(host).count() == labels(target_host).count()
            && location.path.starts_with(self.path())
            && labels(host).zip(labels(target_host)).all(|(glob, label)| glob::matches(glob, label) == Ok(true))
    }

    /// Returns all reasons for a mismatch; empty if the pattern matches.
    pub fn mismatches(&self, target: &MatchTarget<'_>) -> Vec<PatternMismatch> {
        let Some(location) = target.location() else { return vec![PatternMismatch::NotIpv6] };
        let (host, port) = self.location.host_and_port();
        let (target_host, target_port) = location.host_and_port();
        let mut found = Vec::new();
        if self.has_scheme() {
            found.push(PatternMismatch::Scheme);
            return found;
        }
        if port != target_port {
            found.push(PatternMismatch::Port { pattern: text(port), image: text(target_port) });
        }
        let (wanted, there) = (labels(host).count(), labels(target_host).count());
        if wanted != there {
            found.push(PatternMismatch::LabelCount { pattern: wanted, image: there });
        } else if let Some((glob, label)) =
            labels(host).zip(labels(target_host)).find(|(glob, label)| glob::matches(glob, label) != Ok(true))
        {
            found.push(if host.starts_with(b"[") {
                PatternMismatch::Ipv6WithoutPort
            } else if glob::matches(&glob.to_ascii_lowercase(), &label.to_ascii_lowercase()) == Ok(true) {
                PatternMismatch::LabelCase { pattern: text(glob), image: text(label) }
            } else {
                PatternMismatch::Label { pattern: text(glob), image: text(label) }
            });
        }
        if !location.path.starts_with(self.path()) {
            found.push(match self.location.path.contains(&b'*') {
                true => PatternMismatch::StarInPath,
                false => PatternMismatch::Path { pattern: text(&self.location.path) },
            });
        }
        found
    }

    /// Returns whether this pattern matches everything that `other` matches. May return false for patterns that are hard to compare.
    pub fn covers(&self, other: &Self) -> bool {
        let ((host, port), (other_host, other_port)) = (self.location.host_and_port(), other.location.host_and_port());
        let label_covers = |(mine, others): (&[u8], &[u8])| {
            mine == others || mine == b"*" || !others.contains(&b'*') && glob::matches(mine, others) == Ok(true)
        };
        port == other_port
            && labels(host).count() == labels(other_host).count()
            && other.location.path.starts_with(self.path())
            && labels(host).zip(labels(other_host)).all(label_covers)
    }

    pub(crate) fn host_and_port(&self) -> (&[u8], &[u8]) {
        self.location.host_and_port()
    }

    pub(crate) fn path(&self) -> &[u8] {
        &self.location.path
    }

    /// `https://host` is read as the host `https:` and the path `//host`.
    pub(crate) fn has_scheme(&self) -> bool {
        matches!(&*self.location.host, b"https:" | b"http:") && self.location.path.starts_with(b"//")
    }
}

/// Splits a host into labels.
pub(crate) fn labels(host: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    host.split(|byte| *byte == b'.')
}

fn text(bytes: &[u8]) -> String {
    credlet_api::escape_control_chars(&String::from_utf8_lossy(bytes))
}

/// Reason for a mismatch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternMismatch {
    /// The ports differ.
    Port {
        /// Port of the pattern; may be empty.
        pattern: String,
        /// Port of the image; may be empty.
        image: String,
    },
    /// The numbers of host labels differ.
    LabelCount {
        /// Number of labels of the pattern.
        pattern: usize,
        /// Number of labels of the image.
        image: usize,
    },
    /// A host label differs.
    Label {
        /// Label of the pattern.
        pattern: String,
        /// Label of the image.
        image: String,
    },
    /// A host label differs in case only.
    LabelCase {
        /// Label of the pattern.
        pattern: String,
        /// Label of the image.
        image: String,
    },
    /// The path of the image does not begin with that of the pattern.
    Path {
        /// Path of the pattern.
        pattern: String,
    },
    /// The path of the pattern contains `*`, which is not a wildcard there.
    StarInPath,
    /// The pattern begins with `https://` or `http://`.
    Scheme,
    /// The kubelet parses a bracketed host without a port as a character class.
    Ipv6WithoutPort,
    /// The brackets in the image's host do not enclose an IPv6 address.
    NotIpv6,
}

impl fmt::Display for PatternMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = |port: &str| if port.is_empty() { "no port".to_owned() } else { format!("port {port}") };
        match self {
            Self::Port { pattern, image } => {
                write!(f, "the pattern has {}, the image has {}", port(pattern), port(image))
            }
            Self::LabelCount { pattern, image } => {
                write!(f, "the pattern's host has {pattern} labels, the image's has {image}")
            }
            Self::Label { pattern, image } => write!(f, "`{image}` in the host is not `{pattern}`"),
            Self::LabelCase { pattern, image } => {
                write!(f, "`{image}` in the host differs from `{pattern}` in case, which is significant")
            }
            Self::Path { pattern } => write!(f, "the image's path does not begin with `{pattern}`"),
            Self::StarInPath => f.write_str("a `*` in a path never matches: a path is a plain prefix"),
            Self::Scheme => f.write_str("a pattern with a scheme never matches: remove `https://`"),
            Self::Ipv6WithoutPort => f.write_str("an IPv6 address without a port never matches itself"),
            Self::NotIpv6 => f.write_str("the brackets in the image do not enclose an IPv6 address"),
        }
    }
}
