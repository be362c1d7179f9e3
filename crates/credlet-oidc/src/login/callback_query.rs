use zeroize::Zeroizing;

/// The query of a redirect. A repeated parameter has no value: RFC 6749 section 3.1 forbids it, and an attacker may have added the
/// second one.
pub(super) struct CallbackQuery(Vec<(String, Zeroizing<String>)>);

impl CallbackQuery {
    pub(super) fn parse(text: &str) -> Self {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Some((form_decode(name)?.to_string(), form_decode(value)?))
        };
        Self(text.split('&').filter(|pair| !pair.is_empty()).filter_map(pair).collect())
    }

    pub(super) fn value(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(found, _)| found == name);
        let (_, value) = found.next()?;
        found.next().is_none().then_some(value.as_str())
    }
}

/// Decodes form data: percent-encoding, and `+` for a space.
fn form_decode(text: &str) -> Option<Zeroizing<String>> {
    let bytes = credlet_api::percent_decode(&Zeroizing::new(text.replace('+', " ")))?;
    std::str::from_utf8(&bytes).ok().map(|text| Zeroizing::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded() {
        let query = CallbackQuery::parse("code=a%2Fb+c&state=%C3%A9&empty&bad=%zz&cut=%4");
        assert_eq!(query.value("code"), Some("a/b c"));
        assert_eq!(query.value("state"), Some("é"));
        assert_eq!(query.value("empty"), Some(""));
        assert_eq!((query.value("bad"), query.value("cut"), query.value("none")), (None, None, None));
    }

    #[test]
    fn repeated_parameter_has_no_value() {
        assert_eq!(CallbackQuery::parse("code=a&code=b").value("code"), None);
    }
}
