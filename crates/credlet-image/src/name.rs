//! Image names, with the grammar of `distribution/reference`.

use std::fmt;

use credlet_api::escape_control_chars;

/// Image name, normalised as by the kubelet: `busybox` becomes `docker.io/library/busybox`.
///
/// ```
/// use credlet_image::ImageName;
///
/// let name: ImageName = "busybox:1.36".parse()?;
/// assert_eq!(name.as_str(), "docker.io/library/busybox");
/// assert_eq!(name.registry(), "docker.io");
/// assert_eq!(name.tag(), Some("1.36"));
/// # Ok::<(), credlet_image::ImageNameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageName {
    name: String,
    registry: usize,
    tag: Option<String>,
    digest: Option<String>,
}

impl ImageName {
    /// Returns domain and path, without tag and digest. Requests to providers contain this.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Returns the registry: host, and port if present.
    pub fn registry(&self) -> &str {
        &self.name[..self.registry]
    }

    /// Returns the tag, if any.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// Returns the digest, if any.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Invalid image name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid image name `{}`: {reason}", TruncatedText(image))]
pub struct ImageNameError {
    /// The invalid name.
    pub image: String,
    /// Rule that the name violates.
    pub reason: ImageNameFault,
}

/// Problem of an image name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageNameFault {
    /// The name is an image ID.
    #[error("64 hexadecimal digits are an image ID, which cannot be pulled")]
    Identifier,
    /// The path has upper-case letters.
    #[error("the path must be lower case")]
    UpperCase,
    /// The name does not match the grammar.
    #[error("must have the form [host[:port]/]path[:tag][@digest]")]
    Format,
    /// The path is longer than 255 characters.
    #[error("the path is too long: more than 255 characters")]
    TooLong,
    /// The digest is invalid.
    #[error("unsupported digest: must be a full sha256, sha384 or sha512")]
    Digest,
}

impl std::str::FromStr for ImageName {
    type Err = ImageNameError;

    fn from_str(image: &str) -> Result<Self, ImageNameError> {
        parse(image).map_err(|reason| ImageNameError { image: image.to_owned(), reason })
    }
}

fn parse(image: &str) -> Result<ImageName, ImageNameFault> {
    if image.len() == 64 && image.bytes().all(is_lower_hex) {
        return Err(ImageNameFault::Identifier);
    }
    let (domain, library, remainder) = split_domain(image);
    let repository = remainder.split(':').next().unwrap_or_default();
    if has_upper_case(repository) {
        return Err(ImageNameFault::UpperCase);
    }
    let (rest, digest) = match remainder.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (remainder, None),
    };
    let last = rest.rfind('/').map_or(0, |slash| slash + 1);
    let (path, tag) = match rest[last..].find(':') {
        Some(colon) => (&rest[..last + colon], Some(&rest[last + colon + 1..])),
        None => (rest, None),
    };
    // An invalid host such as `a_b.c` may still be the first path component.
    let is_host = is_domain(domain);
    let first_is_fine = is_host || is_path_component(domain.as_bytes());
    let mut components = path.as_bytes().split(|byte| *byte == b'/');
    if !first_is_fine || !components.all(is_path_component) || tag.is_some_and(|tag| !is_tag(tag)) {
        return Err(ImageNameFault::Format);
    }
    let path_length = library.len() + path.len() + if is_host { 0 } else { domain.len() + 1 };
    if path_length > 255 {
        return Err(ImageNameFault::TooLong);
    }
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return Err(ImageNameFault::Digest);
    }
    Ok(ImageName {
        name: [domain, "/", library, path].concat(),
        registry: domain.len(),
        tag: tag.map(str::to_owned),
        digest: digest.map(str::to_owned),
    })
}

/// Splits a name into host, implied path prefix and rest, with docker's defaults.
fn split_domain(image: &str) -> (&str, &'static str, &str) {
    const HUB: &str = "docker.io";
    let (domain, remainder) = match image.split_once('/') {
        None => (HUB, image),
        Some(("index.docker.io", remainder)) => (HUB, remainder),
        Some((first, remainder)) => {
            // A path component is lower case, so an upper-case one is a host.
            if first == "localhost" || first.contains(['.', ':']) || has_upper_case(first) {
                (first, remainder)
            } else {
                (HUB, image)
            }
        }
    };
    let library = if domain == HUB && !remainder.contains('/') { "library/" } else { "" };
    (domain, library, remainder)
}

fn has_upper_case(text: &str) -> bool {
    match text.is_ascii() {
        true => text.bytes().any(|byte| byte.is_ascii_uppercase()),
        false => text.chars().any(|c| !c.to_lowercase().eq([c])),
    }
}

fn is_domain(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) => {
            let is_address = !address.is_empty() && address.bytes().all(|b| b.is_ascii_hexdigit() || b == b':');
            if !is_address {
                return false;
            }
            match port.strip_prefix(':') {
                None => return port.is_empty(),
                Some(port) => ("localhost", Some(port)),
            }
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_label = |label: &[u8]| {
        let ends =
            label.first().is_some_and(u8::is_ascii_alphanumeric) && label.last().is_some_and(u8::is_ascii_alphanumeric);
        ends && label.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    host.as_bytes().split(|byte| *byte == b'.').all(is_label) && port.is_none_or(is_port)
}

/// Matches lower-case letters and digits, separated by one `.`, one or two `_`, or any number of `-`.
fn is_path_component(text: &[u8]) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = text.first().is_some_and(is_word) && text.last().is_some_and(is_word);
    let mut separators = text.split(is_word);
    ends && separators
        .all(|separator| matches!(separator, b"" | b"." | b"_" | b"__") || separator.iter().all(|byte| *byte == b'-'))
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
}

fn is_digest(text: &str) -> bool {
    let length = match text.split_once(':') {
        Some(("sha256", hex)) => (hex, 64),
        Some(("sha384", hex)) => (hex, 96),
        Some(("sha512", hex)) => (hex, 128),
        _ => return false,
    };
    length.0.len() == length.1 && length.0.bytes().all(is_lower_hex)
}

fn is_lower_hex(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'a'..=b'f')
}

/// Displays foreign text escaped, on one line, cut after 300 characters.
struct TruncatedText<'a>(&'a str);

impl fmt::Display for TruncatedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.0.chars().take(300).collect();
        let dots = if shown.len() < self.0.len() { "…" } else { "" };
        write!(f, "{}{dots}", escape_control_chars(&shown).replace(|c: char| c.is_control(), " "))
    }
}
