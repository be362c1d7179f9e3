//! Extracts values from the XML responses of STS.

use credlet_api::Secret;

/// The text of the first element of this name. The elements of interest have no attributes, comments or children.
pub(super) fn text(xml: &str, element: &str) -> Option<Secret> {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let start = xml.find(&open)? + open.len();
    let length = xml[start..].find(&close)?;
    Some(unescaped(&xml[start..start + length]))
}

fn unescaped(text: &str) -> Secret {
    const ENTITIES: [(&str, char); 5] =
        [("&lt;", '<'), ("&gt;", '>'), ("&quot;", '"'), ("&apos;", '\''), ("&amp;", '&')];
    // The result is not longer than the input, so the buffer never reallocates and leaves no copy of the secret.
    let mut clean = String::with_capacity(text.len());
    let mut rest = text.trim();
    while let Some(c) = rest.chars().next() {
        let (c, length) = match ENTITIES.iter().find(|(entity, _)| rest.starts_with(entity)) {
            Some((entity, c)) => (*c, entity.len()),
            None => (c, c.len_utf8()),
        };
        clean.push(c);
        rest = &rest[length..];
    }
    Secret::new(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_and_unescapes_element_text() {
        let xml = "<R xmlns=\"x\"><C><Id> a&lt;b&amp;lt; </Id><Id>second</Id><Empty></Empty><Open>";
        assert_eq!(text(xml, "Id").unwrap().expose(), "a<b&lt;");
        assert_eq!(text(xml, "Empty").unwrap().expose(), "");
        assert!(text(xml, "Open").is_none());
        assert!(text(xml, "None").is_none());
    }
}
