//! Query parameters, and the representation that `Accept` selects.

use http::HeaderMap;
use http::header::ACCEPT;

/// Decoded query parameters.
pub(super) struct QueryParams(Vec<(String, String)>);

impl QueryParams {
    pub(super) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Self(pairs.map(|(name, value)| (decoded(name), decoded(value))).collect())
    }

    /// Returns the first parameter of this name, unless it is empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1"))
    }
}

/// Decodes percent-escapes and `+`. Invalid escapes are kept.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| tail.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        let escaped = digit(0).zip(digit(1)).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
        let (byte, length) = match (first, escaped) {
            (b'%', Some(byte)) => (byte, 2),
            (b'+', _) => (b' ', 0),
            (byte, _) => (*byte, 0),
        };
        bytes.push(byte);
        rest = &tail[length..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Representation of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseForm {
    /// The object or list.
    Object,
    /// A `Table`, which kubectl requests for its output.
    Table,
}

impl ResponseForm {
    /// Returns the first supported representation of `Accept`, or `None` if there is none.
    pub(super) fn from_accept(headers: &HeaderMap, tables: bool) -> Option<Self> {
        let mut accepted = headers.get_all(ACCEPT).iter().peekable();
        if accepted.peek().is_none() {
            return Some(Self::Object);
        }
        accepted.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).find_map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let is_json = matches!(parts.next(), Some("application/json" | "application/*" | "*/*"));
            let parameters: Vec<_> = parts.filter(|part| !part.starts_with("q=")).collect();
            let has = |parameter: &str| parameters.contains(&parameter);
            match () {
                () if !is_json => None,
                () if tables && has("as=Table") && has("v=v1") && has("g=meta.k8s.io") => Some(Self::Table),
                () if parameters.iter().any(|parameter| parameter.starts_with("as=")) => None,
                () => Some(Self::Object),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_accept(accept: &str) -> Option<ResponseForm> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        ResponseForm::from_accept(&headers, true)
    }

    #[test]
    fn selects_table_or_object() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,\
                       application/json";
        assert_eq!(from_accept(kubectl), Some(ResponseForm::Table));
        assert_eq!(
            from_accept("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json"),
            Some(ResponseForm::Object)
        );
        assert_eq!(from_accept("application/vnd.kubernetes.protobuf, */*;q=0.5"), Some(ResponseForm::Object));
        assert_eq!(from_accept("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io"), None);
        assert_eq!(from_accept("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(ResponseForm::from_accept(&HeaderMap::new(), true), Some(ResponseForm::Object));
    }

    #[test]
    fn decodes_parameters() {
        let query = QueryParams::parse("watch=1&fieldSelector=metadata.name%3Da%2Bb+c&empty=&odd=%4&end=%");
        assert!(query.is_set("watch") && !query.is_set("fieldSelector"));
        assert_eq!(query.get("fieldSelector"), Some("metadata.name=a+b c"));
        assert_eq!((query.get("empty"), query.get("none")), (None, None));
        assert_eq!((query.get("odd"), query.get("end")), (Some("%4"), Some("%")));
    }
}
