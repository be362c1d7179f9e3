//! Image names, by the grammar of the distribution project's references.

use std::fmt;

use credlet_api::visible;

/// An image's name as the kubelet completes it: `busybox` is `docker.io/library/busybox`.
///
/// ```
/// use credlet_image::ImageName;
///
/// let name: ImageName = "busybox:1.36".parse()?;
/// assert_eq!(name.as_str(), "docker.io/library/busybox");
/// assert_eq!(name.registry(), "docker.io");
/// assert_eq!(name.tag(), Some("1.36"));
/// # Ok::<(), credlet_image::NameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageName {
    name: String,
    registry: usize,
    tag: Option<String>,
    digest: Option<String>,
}

impl ImageName {
    /// Domain and path, without tag and digest. This is what providers are asked for.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// What stands before the first `/`: the host, and the port if there is one.
    pub fn registry(&self) -> &str {
        &self.name[..self.registry]
    }

    /// The tag, if the name has one.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, if the name has one.
    pub fn digest(&self) -> Option<&str> {
        self.digest.as_deref()
    }
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Why a text is no image's name. Whoever wrote it must act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no image name: {reason}", Shortened(image))]
pub struct NameError {
    /// The text.
    pub image: String,
    /// What is wrong with it.
    pub reason: NameFault,
}

/// What is wrong with an image's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameFault {
    /// 64 hexadecimal digits are an image's identifier.
    #[error("64 hexadecimal digits are an identifier, which cannot be pulled")]
    Identifier,
    /// Upper-case letters outside the host.
    #[error("its path must be in lower case")]
    UpperCase,
    /// Anything else.
    #[error("it does not have the form [host[:port]/]path[:tag][@digest]")]
    Format,
    /// A path of more than 255 characters.
    #[error("its path is longer than 255 characters")]
    TooLong,
    /// A digest that is none.
    #[error("its digest is none of sha256, sha384 and sha512 in full")]
    Digest,
}

impl std::str::FromStr for ImageName {
    type Err = NameError;

    fn from_str(image: &str) -> Result<Self, NameError> {
        parse(image).map_err(|reason| NameError { image: image.to_owned(), reason })
    }
}

fn parse(image: &str) -> Result<ImageName, NameFault> {
    if image.len() == 64 && image.bytes().all(is_lower_hex) {
        return Err(NameFault::Identifier);
    }
    let (domain, library, remainder) = completed(image);
    let repository = remainder.split(':').next().unwrap_or_default();
    if has_upper_case(repository) {
        return Err(NameFault::UpperCase);
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
    // Something that is no host may still be the beginning of a path, such as `a_b.c`.
    let is_host = is_domain(domain);
    let first_is_fine = is_host || is_path_component(domain.as_bytes());
    let mut components = path.as_bytes().split(|byte| *byte == b'/');
    if !first_is_fine || !components.all(is_path_component) || tag.is_some_and(|tag| !is_tag(tag)) {
        return Err(NameFault::Format);
    }
    let path_length = library.len() + path.len() + if is_host { 0 } else { domain.len() + 1 };
    if path_length > 255 {
        return Err(NameFault::TooLong);
    }
    if digest.is_some_and(|digest| !is_digest(digest)) {
        return Err(NameFault::Digest);
    }
    Ok(ImageName {
        name: [domain, "/", library, path].concat(),
        registry: domain.len(),
        tag: tag.map(str::to_owned),
        digest: digest.map(str::to_owned),
    })
}

/// Host, beginning of the path and the rest, with what docker means when it is not written.
fn completed(image: &str) -> (&str, &'static str, &str) {
    const HUB: &str = "docker.io";
    let (domain, remainder) = match image.split_once('/') {
        None => (HUB, image),
        Some(("index.docker.io", remainder)) => (HUB, remainder),
        Some((first, remainder)) => {
            // Nobody's path begins with a capital letter.
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

/// Words of lower-case letters and digits, between them one `.`, one or two `_`, or any number of `-`.
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

/// Foreign text in a message: harmless, on one line, and not a page of it.
struct Shortened<'a>(&'a str);

impl fmt::Display for Shortened<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.0.chars().take(300).collect();
        let dots = if shown.len() < self.0.len() { "…" } else { "" };
        write!(f, "{}{dots}", visible(&shown).replace(|c: char| c.is_control(), " "))
    }
}
