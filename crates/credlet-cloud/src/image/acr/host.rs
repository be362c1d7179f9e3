/// Registry domains of all Azure clouds.
const SUFFIXES: [&str; 4] = ["azurecr.io", "azurecr.cn", "azurecr.de", "azurecr.us"];

/// A registry of Azure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AcrRegistry<'a> {
    /// The full host name.
    pub(super) host: &'a str,
    name: &'a str,
    suffix: &'a str,
}

impl<'a> AcrRegistry<'a> {
    /// Parses a host name: `NAME.SUFFIX`, or `NAME.REGION.geo.SUFFIX` of a geo-replicated registry. `None`: not a registry of Azure.
    /// Ports and upper case are not accepted; for a kubelet such a name is a different registry too.
    pub(super) fn parse(host: &'a str, custom: Option<&'a str>) -> Option<Self> {
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

    /// Whether `host` is another name of this registry.
    pub(super) fn is_same_registry(&self, host: &str) -> bool {
        AcrRegistry::parse(host, Some(self.suffix))
            .is_some_and(|other| (other.name, other.suffix) == (self.name, self.suffix))
    }
}

/// Whether the text is a registry name: letters and digits, optionally with a hyphen and the hash that Azure adds against takeover.
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
    fn regional_names_are_same_registry() {
        let registry = AcrRegistry::parse("foo.azurecr.io", None).unwrap();
        assert!(registry.is_same_registry("foo.azurecr.io") && registry.is_same_registry("foo.eastus.geo.azurecr.io"));
        for other in ["bar.azurecr.io", "foo.azurecr.cn", "foo.azurecr.io.evil.io", "evil.io", "foo.azurecr.io:444", ""]
        {
            assert!(!registry.is_same_registry(other), "{other}");
        }
        let registry = AcrRegistry::parse("foo.azurecr.my.cloud", Some("azurecr.my.cloud")).unwrap();
        assert!(registry.is_same_registry("foo.azurecr.my.cloud"));
    }
}
