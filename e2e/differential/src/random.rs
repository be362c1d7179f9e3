use fastrand::Rng;
use serde_json::{Map, Value};

/// Returns one of these.
pub(crate) fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.usize(..choices.len())]
}

/// Returns `true` with probability 1/`n`.
pub(crate) fn rarely(rng: &mut Rng, n: usize) -> bool {
    rng.usize(..n) == 0
}

/// Text with characters that encoders get wrong.
pub(crate) fn text(rng: &mut Rng) -> String {
    const PIECES: &[&str] = &[
        "a",
        "b",
        "token",
        "x-1",
        "A",
        "0",
        " ",
        "\"",
        "\\",
        "/",
        "<",
        ">",
        "&",
        "'",
        "\n",
        "\t",
        "\r",
        "\u{1}",
        "\u{7f}",
        "\u{e9}",
        "\u{2028}",
        "\u{2029}",
        "\u{1f600}",
        "\u{fffd}",
        "%",
        ":",
        "#",
        "-",
        "{",
        "}",
        "[",
        "]",
        ",",
        "=",
        "\u{0}",
        "\u{feff}",
        "\u{85}",
    ];
    (0..rng.usize(..6)).map(|_| pick(rng, PIECES)).collect()
}

/// Adds a member to an object with probability 1/`n`.
pub(crate) fn maybe(
    rng: &mut Rng,
    n: usize,
    object: &mut Map<String, Value>,
    name: &str,
    value: impl FnOnce(&mut Rng) -> Value,
) {
    if rarely(rng, n) {
        let value = value(rng);
        object.insert(name.to_owned(), value);
    }
}

/// A shallow JSON value.
pub(crate) fn json(rng: &mut Rng, depth: usize) -> Value {
    match rng.usize(..if depth == 0 { 6 } else { 8 }) {
        0 => Value::Null,
        1 => Value::Bool(rng.bool()),
        2 => Value::from(rng.i64(-1000..1000)),
        3 => Value::from(pick(rng, &[0.5, 1.0, -0.0, 1e20, 1e-7, 123_456_789.125, 1e21])),
        4 | 5 => Value::String(text(rng)),
        6 => (0..rng.usize(..3)).map(|_| json(rng, depth - 1)).collect(),
        _ => Value::Object((0..rng.usize(..3)).map(|_| (text(rng), json(rng, depth - 1))).collect()),
    }
}
