//! Validation of annotation keys, as in Kubernetes' `IsQualifiedName`.

/// The problem of an invalid annotation key. Case is ignored.
pub(super) fn fault(key: &str) -> Option<&'static str> {
    let key = key.to_lowercase();
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, &*key),
    };
    if prefix.is_some_and(|prefix| !is_subdomain(prefix)) {
        return Some("the prefix before `/` is not a DNS subdomain");
    }
    let ends = |c: char| c.is_ascii_alphanumeric();
    let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.starts_with(ends) || !name.ends_with(ends) || !name.chars().all(inside) {
        return Some("it must begin and end with a letter or digit and contain only letters, digits, `-`, `_` and `.`");
    }
    (name.len() > 63).then_some("it is longer than 63 characters")
}

fn is_subdomain(text: &str) -> bool {
    let is_end = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_label = |label: &str| {
        label.starts_with(is_end) && label.ends_with(is_end) && label.chars().all(|c| is_end(c) || c == '-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}
