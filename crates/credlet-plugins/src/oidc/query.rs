use zeroize::Zeroizing;

/// What came back in a redirect. Of a name that comes twice nothing is known: RFC 6749 forbids it, and whoever adds a
/// second one wants us to read the wrong one.
pub(super) struct Query(Vec<(String, Zeroizing<String>)>);

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((decoded(name)?.to_string(), decoded(value)?))
        };
        Self(text.split('&').filter(|pair| !pair.is_empty()).filter_map(pair).collect())
    }

    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(found, _)| found == name);
        let (_, value) = found.next()?;
        found.next().is_none().then_some(value.as_str())
    }

    /// Whether this is an answer at all, and not just somebody who opens the page.
    pub(super) fn is_answer(&self) -> bool {
        self.0.iter().any(|(name, _)| matches!(name.as_str(), "code" | "error" | "state"))
    }
}

fn decoded(text: &str) -> Option<Zeroizing<String>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(text.len()));
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? << 4 | digit()?).ok()?
            }
            byte => byte,
        });
    }
    std::str::from_utf8(&bytes).ok().map(|text| Zeroizing::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let query = Query::parse("code=a%2Fb+c&state=%C3%A9&empty&bad=%zz&cut=%4");
        assert_eq!(query.value("code"), Some("a/b c"));
        assert_eq!(query.value("state"), Some("é"));
        assert_eq!(query.value("empty"), Some(""));
        assert_eq!((query.value("bad"), query.value("cut"), query.value("none")), (None, None, None));
        assert!(query.is_answer());
        assert!(!Query::parse("").is_answer());
    }

    #[test]
    fn what_is_said_twice_is_not_said() {
        assert_eq!(Query::parse("code=a&code=b").value("code"), None);
    }
}
