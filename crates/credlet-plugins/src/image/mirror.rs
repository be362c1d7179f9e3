//! Registries that stand in for others. A password goes to another host than the cloud's own only if a person has
//! written that host down.

/// `SOURCE=REGISTRY`, or `SOURCE:REGISTRY` as Azure's provider has it, which leaves no room for ports; several with commas
/// between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mirrors(Vec<Mirror>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mirror {
    /// Host and port in the image's name.
    source: String,
    /// The registry whose password is good there, perhaps with a repository that comes before the image's.
    registry: String,
}

impl Mirrors {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(Mirror::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl Mirror {
    fn parse(item: &str) -> Result<Self, String> {
        let pair = item.split_once('=').or_else(|| item.split_once(':').filter(|(_, rest)| !rest.contains(':')));
        let (source, registry) = pair.ok_or("a mirror is written SOURCE=REGISTRY")?;
        let (source, registry) = (source.trim(), registry.trim());
        match is_host(source) && is_host(host(registry)) {
            true => Ok(Self { source: source.to_owned(), registry: registry.to_owned() }),
            false => Err("a mirror's SOURCE is a registry's host, and so is what its REGISTRY begins with".to_owned()),
        }
    }
}

/// The registry in whose place the one of this name stands.
pub(super) fn behind<'a>(mirrors: &'a [Mirrors], registry: &str) -> Option<&'a str> {
    let all = mirrors.iter().flat_map(|mirrors| &mirrors.0);
    all.into_iter().find(|mirror| mirror.source == registry).map(|mirror| host(&mirror.registry))
}

/// A name or an address, and perhaps a port.
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
    fn a_mirror_is_for_its_own_source_and_no_other() {
        let mirrors = [
            Mirrors::parse("mcr.microsoft.com: x.azurecr.io ,a.example:b.azurecr.io/some/where,").unwrap(),
            Mirrors::parse("r.example:5000=y.azurecr.io,[::1]=z.azurecr.io,[::1]:5000=z.azurecr.io").unwrap(),
        ];
        assert_eq!(behind(&mirrors, "mcr.microsoft.com"), Some("x.azurecr.io"));
        assert_eq!(behind(&mirrors, "a.example"), Some("b.azurecr.io"));
        assert_eq!(behind(&mirrors, "r.example:5000"), Some("y.azurecr.io"));
        assert_eq!(behind(&mirrors, "[::1]:5000"), Some("z.azurecr.io"));
        for other in
            ["r.example", "xmcr.microsoft.com", "mcr.microsoft.com.evil.io", "MCR.microsoft.com", "x.azurecr.io"]
        {
            assert_eq!(behind(&mirrors, other), None, "{other}");
        }
    }

    #[test]
    fn what_is_no_mirror_is_refused() {
        for bad in ["x", "x=", "=x", "a:b:c", "https://a=b", "a=https://b", "a/b=c", "a=b,c", "a:x=b", "a:=b"] {
            assert!(Mirrors::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(Mirrors::parse(""), Ok(Mirrors(Vec::new())));
    }
}
