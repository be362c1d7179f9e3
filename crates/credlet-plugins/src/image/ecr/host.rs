/// A registry of Amazon's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Registry<'a> {
    /// Of an account, in a region.
    Private {
        /// `eu-west-3`
        region: &'a str,
        /// Of the API that gives out its passwords: `amazonaws.com`
        domain: &'static str,
    },
    /// Of everybody.
    Public,
}

/// How private registries' names end, and the domain of the API that belongs to each.
const DOMAINS: [(&str, &str); 9] = [
    ("amazonaws.com", "amazonaws.com"),
    ("amazonaws.com.cn", "amazonaws.com.cn"),
    ("amazonaws.eu", "amazonaws.eu"),
    // Reached over IPv6 too. The API has other names for that, which are for the machine's settings to choose.
    ("on.aws", "amazonaws.com"),
    ("on.amazonwebservices.com.cn", "amazonaws.com.cn"),
    ("c2s.ic.gov", "c2s.ic.gov"),
    ("sc2s.sgov.gov", "sc2s.sgov.gov"),
    ("cloud.adc-e.uk", "cloud.adc-e.uk"),
    ("csp.hci.ic.gov", "csp.hci.ic.gov"),
];

impl<'a> Registry<'a> {
    /// Which one has this name. `None`: it is not Amazon's, and gets nothing. A name with a port, or in another case, is
    /// another name for a kubelet too.
    pub(super) fn of(host: &'a str) -> Option<Self> {
        if matches!(host, "public.ecr.aws" | "ecr-public.aws.com") {
            return Some(Self::Public);
        }
        let (account, rest) = host.split_once('.')?;
        let rest = rest.strip_prefix("dkr.ecr").or_else(|| rest.strip_prefix("dkr-ecr"))?;
        let rest = rest.strip_prefix("-fips").unwrap_or(rest).strip_prefix('.')?;
        let (region, end) = rest.split_once('.')?;
        let is_account = account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit());
        let (_, domain) = DOMAINS.into_iter().find(|(known, _)| *known == end)?;
        (is_account && is_region(region)).then_some(Self::Private { region, domain })
    }
}

/// It becomes a part of the name of the host that is asked.
fn is_region(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= 63
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| is_letter(byte) || byte == b'-')
}
