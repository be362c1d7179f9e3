/// The clouds' own, whichever of them this node is in.
const SUFFIXES: [&str; 4] = ["azurecr.io", "azurecr.cn", "azurecr.de", "azurecr.us"];

/// A registry of Azure's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registry<'a> {
    /// The whole of its host's name.
    pub(super) host: &'a str,
    name: &'a str,
    suffix: &'a str,
}

impl<'a> Registry<'a> {
    /// Which one has this name: `NAME.SUFFIX`, or `NAME.REGION.geo.SUFFIX` of one that is in many regions. `None`: it is
    /// not Azure's, and gets nothing. A name with a port, or in another case, is another name for a kubelet too.
    pub(super) fn of(host: &'a str, custom: Option<&'a str>) -> Option<Self> {
        let before = |suffix| Some((host.strip_suffix(suffix)?.strip_suffix('.')?, suffix));
        let (labels, suffix) = SUFFIXES.into_iter().chain(custom).find_map(before)?;
        let labels: Vec<_> = labels.split('.').collect();
        let name = match *labels {
            [name] => name,
            [name, region, "geo"] if is_label(region) => name,
            _ => return None,
        };
        is_name(name).then_some(Self { host, name, suffix })
    }

    /// Whether a host is this registry's too: it may be asked there for what it gives out.
    pub(super) fn is_also(&self, host: &str) -> bool {
        Registry::of(host, Some(self.suffix))
            .is_some_and(|other| (other.name, other.suffix) == (self.name, self.suffix))
    }
}

/// Letters and digits, and perhaps a hyphen and the hash that Azure adds so that nobody can take the name over.
fn is_name(text: &str) -> bool {
    let mut parts = text.split('-');
    let (name, hash) = (parts.next().unwrap_or_default(), parts.next());
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(is_letter);
    text.len() <= 63 && is_part(name) && hash.is_none_or(is_part) && parts.next().is_none()
}

fn is_label(text: &str) -> bool {
    !text.is_empty() && text.len() <= 63 && text.bytes().all(|byte| is_letter(byte) || byte == b'-')
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_the_same_under_its_regional_names_only() {
        let registry = Registry::of("foo.azurecr.io", None).unwrap();
        assert!(registry.is_also("foo.azurecr.io") && registry.is_also("foo.eastus.geo.azurecr.io"));
        for other in ["bar.azurecr.io", "foo.azurecr.cn", "foo.azurecr.io.evil.io", "evil.io", "foo.azurecr.io:444", ""]
        {
            assert!(!registry.is_also(other), "{other}");
        }
        let registry = Registry::of("foo.azurecr.my.cloud", Some("azurecr.my.cloud")).unwrap();
        assert!(registry.is_also("foo.azurecr.my.cloud"));
    }
}
