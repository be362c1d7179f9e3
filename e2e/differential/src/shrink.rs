use serde_json::{Map, Value};

/// Returns the smallest failing case that removing and simplifying members leads to.
pub(crate) fn shrink(case: Value, fails: &mut dyn FnMut(&Value) -> bool) -> Value {
    let mut best = case;
    // A bound, because each step queries the oracle; sufficient for every case so far.
    let mut budget = 3_000;
    'again: loop {
        for candidate in smaller(&best) {
            if budget == 0 {
                return best;
            }
            budget -= 1;
            if fails(&candidate) {
                best = candidate;
                continue 'again;
            }
        }
        return best;
    }
}

/// All cases that are one step smaller, largest steps first.
fn smaller(value: &Value) -> Vec<Value> {
    match value {
        Value::Object(members) => {
            let without = members.keys().map(|name| {
                let rest = members.iter().filter(|(other, _)| *other != name);
                Value::Object(rest.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>())
            });
            let within = members.iter().flat_map(|(name, value)| {
                smaller(value).into_iter().map(move |value| {
                    let mut members = members.clone();
                    members[name] = value;
                    Value::Object(members)
                })
            });
            without.chain(within).collect()
        }
        Value::Array(items) => {
            let without = (0..items.len()).map(|index| {
                let mut items = items.clone();
                items.remove(index);
                Value::Array(items)
            });
            let within = items.iter().enumerate().flat_map(|(index, item)| {
                smaller(item).into_iter().map(move |item| {
                    let mut items = items.clone();
                    items[index] = item;
                    Value::Array(items)
                })
            });
            without.chain(within).collect()
        }
        Value::String(text) if !text.is_empty() => {
            let letters: Vec<char> = text.chars().collect();
            let (front, back) = letters.split_at(letters.len() / 2);
            let mut shorter = vec![String::new(), front.iter().collect(), back.iter().collect()];
            if letters.len() <= 40 {
                for index in 0..letters.len() {
                    let mut letters = letters.clone();
                    letters.remove(index);
                    shorter.push(letters.into_iter().collect());
                }
            }
            shorter.retain(|shorter| shorter.len() < text.len());
            shorter.into_iter().map(Value::String).collect()
        }
        Value::Bool(true) => vec![Value::Bool(false)],
        Value::Number(number) if number.as_u64() != Some(0) => vec![Value::from(0)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_makes_it_fail_is_left() {
        let case = json!({"a": [1, {"b": "xxneedlexx", "c": true}], "d": "long text"});
        let small = shrink(case, &mut |case| case.to_string().contains("needle"));
        assert_eq!(small, json!({"a": [{"b": "needle"}]}));
    }
}
