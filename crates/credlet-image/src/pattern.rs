//! One pattern of `matchImages`, or one key of `auth`, against an image.

use std::fmt;

use crate::glob;
use crate::location::{Location, LocationError};
use crate::name::ImageName;

/// A pattern for images: `*.dkr.ecr.*.amazonaws.com`, `registry.example:5000/team`.
///
/// Host labels are compared one by one, and `*` stands for any run of characters inside one of them. Ports must be
/// equal, also when there is none. The path is a plain prefix, without regard to its segments.
///
/// ```
/// use credlet_image::{Pattern, Target};
///
/// let pattern = Pattern::parse("*.example.com/team")?;
/// assert!(pattern.matches(&Target::parse("eu.example.com/team/app")?));
/// assert!(!pattern.matches(&Target::parse("example.com/team/app")?));
/// # Ok::<(), credlet_image::LocationError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    place: Location<'static>,
}

/// What patterns are compared with: an image, or part of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// `None`: a name, but no place, and nothing matches it.
    place: Option<Location<'a>>,
}

impl<'a> Target<'a> {
    /// Takes an image apart, as it is: nothing is completed.
    ///
    /// # Errors
    /// Nothing matches such a text.
    pub fn parse(image: &'a str) -> Result<Self, LocationError> {
        Ok(Self { place: Some(Location::parse(image.as_bytes())?) })
    }

    pub(crate) fn place(&self) -> Option<&Location<'a>> {
        self.place.as_ref()
    }
}

impl<'a> From<&'a ImageName> for Target<'a> {
    /// An image's name has nothing in it that would have to be decoded.
    fn from(name: &'a ImageName) -> Self {
        let (host, path) = name.as_str().split_at(name.registry().len());
        // In a name, any digits and colons may stand in brackets.
        let place = match host.starts_with('[') {
            true => Location::parse(name.as_str().as_bytes()).ok(),
            false => Some(Location { host: host.as_bytes().into(), path: path.as_bytes().into() }),
        };
        Self { place }
    }
}

impl Pattern {
    /// Takes a pattern apart.
    ///
    /// # Errors
    /// The kubelet refuses a configuration with such a pattern.
    pub fn parse(text: &str) -> Result<Self, LocationError> {
        Ok(Self { text: text.to_owned(), place: Location::parse(text.as_bytes())?.into_owned() })
    }

    /// A key of a keyring is text that was decoded once; it is decoded again, as the kubelet does.
    pub(crate) fn from_key(key: &[u8]) -> Result<Self, LocationError> {
        Ok(Self { text: String::from_utf8_lossy(key).into_owned(), place: Location::parse(key)?.into_owned() })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the image is one that this pattern stands for.
    pub fn matches(&self, target: &Target<'_>) -> bool {
        let Some(place) = target.place() else { return false };
        let (host, port) = self.place.host_and_port();
        let (target_host, target_port) = place.host_and_port();
        port == target_port
            && labels(host).count() == labels(target_host).count()
            && place.path.starts_with(self.path())
            && labels(host).zip(labels(target_host)).all(|(glob, label)| glob::matches(glob, label) == Ok(true))
    }

    /// Everything that keeps the image from matching. Empty: it matches.
    pub fn mismatches(&self, target: &Target<'_>) -> Vec<Mismatch> {
        let Some(place) = target.place() else { return vec![Mismatch::NoAddress] };
        let (host, port) = self.place.host_and_port();
        let (target_host, target_port) = place.host_and_port();
        let mut found = Vec::new();
        if self.has_scheme() {
            found.push(Mismatch::Scheme);
            return found;
        }
        if port != target_port {
            found.push(Mismatch::Port { pattern: text(port), image: text(target_port) });
        }
        let (wanted, there) = (labels(host).count(), labels(target_host).count());
        if wanted != there {
            found.push(Mismatch::LabelCount { pattern: wanted, image: there });
        } else if let Some((glob, label)) =
            labels(host).zip(labels(target_host)).find(|(glob, label)| glob::matches(glob, label) != Ok(true))
        {
            found.push(if host.starts_with(b"[") {
                Mismatch::Ipv6WithoutPort
            } else if glob::matches(&glob.to_ascii_lowercase(), &label.to_ascii_lowercase()) == Ok(true) {
                Mismatch::LabelCase { pattern: text(glob), image: text(label) }
            } else {
                Mismatch::Label { pattern: text(glob), image: text(label) }
            });
        }
        if !place.path.starts_with(self.path()) {
            found.push(match self.place.path.contains(&b'*') {
                true => Mismatch::StarInPath,
                false => Mismatch::Path { pattern: text(&self.place.path) },
            });
        }
        found
    }

    /// Whether everything that `other` matches is surely matched by this one too. Where that is hard to say: no.
    pub fn covers(&self, other: &Self) -> bool {
        let ((host, port), (other_host, other_port)) = (self.place.host_and_port(), other.place.host_and_port());
        let label_covers = |(mine, others): (&[u8], &[u8])| {
            mine == others || mine == b"*" || !others.contains(&b'*') && glob::matches(mine, others) == Ok(true)
        };
        port == other_port
            && labels(host).count() == labels(other_host).count()
            && other.place.path.starts_with(self.path())
            && labels(host).zip(labels(other_host)).all(label_covers)
    }

    pub(crate) fn host_and_port(&self) -> (&[u8], &[u8]) {
        self.place.host_and_port()
    }

    pub(crate) fn path(&self) -> &[u8] {
        &self.place.path
    }

    /// `https://host` is read as the host `https:` and the path `//host`.
    pub(crate) fn has_scheme(&self) -> bool {
        matches!(&*self.place.host, b"https:" | b"http:") && self.place.path.starts_with(b"//")
    }
}

/// The parts of a host between its dots.
pub(crate) fn labels(host: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    host.split(|byte| *byte == b'.')
}

fn text(bytes: &[u8]) -> String {
    credlet_api::visible(&String::from_utf8_lossy(bytes))
}

/// Why an image does not match a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// Other ports, or one has none.
    Port {
        /// That of the pattern; may be empty.
        pattern: String,
        /// That of the image; may be empty.
        image: String,
    },
    /// Hosts of different lengths.
    LabelCount {
        /// How many labels the pattern's host has.
        pattern: usize,
        /// How many the image's host has.
        image: usize,
    },
    /// A label of the host.
    Label {
        /// In the pattern.
        pattern: String,
        /// In the image.
        image: String,
    },
    /// A label of the host, but only because of upper and lower case.
    LabelCase {
        /// In the pattern.
        pattern: String,
        /// In the image.
        image: String,
    },
    /// The image's path does not begin as the pattern's does.
    Path {
        /// The pattern's.
        pattern: String,
    },
    /// A star in a path, where it stands for itself.
    StarInPath,
    /// `https://` before the pattern.
    Scheme,
    /// Brackets without a port are a class of characters to the kubelet.
    Ipv6WithoutPort,
    /// The image's host has brackets around something else than an IPv6 address.
    NoAddress,
}

impl fmt::Display for Mismatch {
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
                write!(f, "`{image}` in the host differs from `{pattern}` in upper and lower case, which counts")
            }
            Self::Path { pattern } => write!(f, "the image's path does not begin with `{pattern}`"),
            Self::StarInPath => f.write_str("a `*` in a path never matches: a path is a plain prefix"),
            Self::Scheme => f.write_str("a pattern with a scheme never matches: leave `https://` out"),
            Self::Ipv6WithoutPort => f.write_str("an IPv6 address without a port never matches itself"),
            Self::NoAddress => f.write_str("what the image has in brackets is no IPv6 address"),
        }
    }
}
