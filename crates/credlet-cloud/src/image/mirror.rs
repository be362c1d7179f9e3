//! Registry mirrors. A password is sent to a host outside of the cloud only if that host is configured as a mirror.

/// A comma-separated list of `SOURCE=REGISTRY`, or `SOURCE:REGISTRY` as in Azure's provider, which does not allow ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MirrorList(Vec<RegistryMirror>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct RegistryMirror {
    /// Host and port of the mirror, as in image names.
    source: String,
    /// The mirrored registry, optionally with a repository prefix.
    registry: String,
}

impl MirrorList {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(RegistryMirror::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl RegistryMirror {
    fn parse(item: &str) -> Result<Self, String> {
        let pair = item.split_once('=').or_else(|| item.split_once(':').filter(|(_, rest)| !rest.contains(':')));
        let (source, registry) = pair.ok_or("invalid mirror: must be SOURCE=REGISTRY")?;
        let (source, registry) = (source.trim(), registry.trim());
        match is_host(source) && is_host(host(registry)) {
            true => Ok(Self { source: source.to_owned(), registry: registry.to_owned() }),
            false => Err("invalid mirror: SOURCE must be a host, and REGISTRY must begin with one".to_owned()),
        }
    }
}

/// The registry that `registry` mirrors.
pub(super) fn upstream_of<'a>(mirrors: &'a [MirrorList], registry: &str) -> Option<&'a str> {
    let all = mirrors.iter().flat_map(|mirrors| &mirrors.0);
    all.into_iter().find(|mirror| mirror.source == registry).map(|mirror| host(&mirror.registry))
}

/// Whether the text is a host name or an address, optionally with a port.
fn is_host(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    let port = text.rsplit_once(':').map(|(_, port)| port).filter(|_| !text.ends_with(']'));
    !text.is_empty() && text.bytes().all(is_letter) && port.is_none_or(|port| port.parse::<u16>().is_ok())
}

fn host(registry: &str) -> &str {
    registry.split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_exact_source() {
        let mirrors = [
            MirrorList::parse("mcr.microsoft.com: x.azurecr.io ,a.example:b.azurecr.io/some/where,").unwrap(),
            MirrorList::parse("r.example:5000=y.azurecr.io,[::1]=z.azurecr.io,[::1]:5000=z.azurecr.io").unwrap(),
        ];
        assert_eq!(upstream_of(&mirrors, "mcr.microsoft.com"), Some("x.azurecr.io"));
        assert_eq!(upstream_of(&mirrors, "a.example"), Some("b.azurecr.io"));
        assert_eq!(upstream_of(&mirrors, "r.example:5000"), Some("y.azurecr.io"));
        assert_eq!(upstream_of(&mirrors, "[::1]:5000"), Some("z.azurecr.io"));
        for other in
            ["r.example", "xmcr.microsoft.com", "mcr.microsoft.com.evil.io", "MCR.microsoft.com", "x.azurecr.io"]
        {
            assert_eq!(upstream_of(&mirrors, other), None, "{other}");
        }
    }

    #[test]
    fn rejects_invalid_mirrors() {
        for bad in ["x", "x=", "=x", "a:b:c", "https://a=b", "a=https://b", "a/b=c", "a=b,c", "a:x=b", "a:=b"] {
            assert!(MirrorList::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(MirrorList::parse(""), Ok(MirrorList(Vec::new())));
    }
}
