//! What a request asks for beyond its path: parameters, and the form of the answer.

use http::HeaderMap;
use http::header::ACCEPT;

/// The parameters behind the `?`.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(query: &str) -> Self {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Self(pairs.map(|(name, value)| (decoded(name), decoded(value))).collect())
    }

    /// The first of this name; empty is as good as none.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(super) fn is_set(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1"))
    }
}

/// `%41` and `+` undone. What is no escape stands for itself.
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

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The object itself.
    Object,
    /// Columns for a person to read, as kubectl asks for.
    Table,
}

impl Form {
    /// The first that `Accept` lists and we have. `None`: we have none of them.
    pub(super) fn wanted(headers: &HeaderMap, tables: bool) -> Option<Self> {
        let mut accepted = headers.get_all(ACCEPT).iter().peekable();
        if accepted.peek().is_none() {
            return Some(Self::Object);
        }
        accepted.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).find_map(|range| {
            let mut words = range.split(';').map(str::trim);
            let is_json = matches!(words.next(), Some("application/json" | "application/*" | "*/*"));
            let parameters: Vec<_> = words.filter(|word| !word.starts_with("q=")).collect();
            let asked = |parameter: &str| parameters.contains(&parameter);
            match () {
                () if !is_json => None,
                () if tables && asked("as=Table") && asked("v=v1") && asked("g=meta.k8s.io") => Some(Self::Table),
                () if parameters.iter().any(|parameter| parameter.starts_with("as=")) => None,
                () => Some(Self::Object),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(accept: &str) -> Option<Form> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        Form::wanted(&headers, true)
    }

    #[test]
    fn kubectl_gets_a_table_and_everybody_else_the_object() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,\
                       application/json";
        assert_eq!(wanted(kubectl), Some(Form::Table));
        assert_eq!(wanted("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json"), Some(Form::Object));
        assert_eq!(wanted("application/vnd.kubernetes.protobuf, */*;q=0.5"), Some(Form::Object));
        assert_eq!(wanted("application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io"), None);
        assert_eq!(wanted("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(Form::wanted(&HeaderMap::new(), true), Some(Form::Object));
    }

    #[test]
    fn parameters_are_decoded() {
        let query = Query::parse("watch=1&fieldSelector=metadata.name%3Da%2Bb+c&empty=&odd=%4&end=%");
        assert!(query.is_set("watch") && !query.is_set("fieldSelector"));
        assert_eq!(query.get("fieldSelector"), Some("metadata.name=a+b c"));
        assert_eq!((query.get("empty"), query.get("none")), (None, None));
        assert_eq!((query.get("odd"), query.get("end")), (Some("%4"), Some("%")));
    }
}
