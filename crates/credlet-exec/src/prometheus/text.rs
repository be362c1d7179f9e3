//! The Prometheus text format, version 0.0.4, byte for byte like Go's `expfmt`.
//!
//! The crate prometheus-client writes OpenMetrics, where `# HELP` and `# TYPE` of a counter lack the `_total` of its samples.
//! Parsers of the older format, which Kubernetes components use, would treat these as two metrics.

use std::fmt;

use super::histogram::HistogramSnapshot;

/// Writes metric families. Names are not validated. Methods return the errors of the writer.
#[derive(Debug)]
pub struct TextWriter<W> {
    out: W,
}

impl<W: fmt::Write> TextWriter<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out }
    }

    /// Writes a counter without labels.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counters(name, help)?;
        self.count(name, &[], value)
    }

    /// Writes the header of a family of counters. Samples follow with [`count`](Self::count).
    pub fn counters(&mut self, name: &str, help: &str) -> fmt::Result {
        self.header(name, help, "counter")
    }

    /// Writes one counter of a family.
    pub fn count(&mut self, name: &str, labels: &[(&str, &str)], value: u64) -> fmt::Result {
        self.sample(name, "", labels, value as f64)
    }

    /// Writes a gauge.
    pub fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)], value: f64) -> fmt::Result {
        self.header(name, help, "gauge")?;
        self.sample(name, "", labels, value)
    }

    /// Writes a histogram without labels.
    pub fn histogram(&mut self, name: &str, help: &str, snapshot: &HistogramSnapshot) -> fmt::Result {
        self.histograms(name, help)?;
        self.distribution(name, &[], snapshot)
    }

    /// Writes the header of a family of histograms. Samples follow with [`distribution`](Self::distribution).
    pub fn histograms(&mut self, name: &str, help: &str) -> fmt::Result {
        self.header(name, help, "histogram")
    }

    /// Writes one histogram of a family.
    pub fn distribution(&mut self, name: &str, labels: &[(&str, &str)], snapshot: &HistogramSnapshot) -> fmt::Result {
        for (bound, count) in &snapshot.cumulative {
            let bound = GoFloat(*bound).to_string();
            self.sample(name, "_bucket", &[labels, &[("le", &*bound)]].concat(), *count as f64)?;
        }
        let count = snapshot.count as f64;
        self.sample(name, "_bucket", &[labels, &[("le", "+Inf")]].concat(), count)?;
        self.sample(name, "_sum", labels, snapshot.sum)?;
        self.sample(name, "_count", labels, count)
    }

    fn header(&mut self, name: &str, help: &str, kind: &str) -> fmt::Result {
        write!(self.out, "# HELP {name} ")?;
        self.write_escaped(help, "\\\n")?;
        writeln!(self.out, "\n# TYPE {name} {kind}")
    }

    fn sample(&mut self, name: &str, suffix: &str, labels: &[(&str, &str)], value: f64) -> fmt::Result {
        write!(self.out, "{name}{suffix}")?;
        let mut separator = '{';
        for (label, value) in labels {
            write!(self.out, "{separator}{label}=\"")?;
            self.write_escaped(value, "\\\n\"")?;
            self.out.write_char('"')?;
            separator = ',';
        }
        let after = if labels.is_empty() { "" } else { "}" };
        writeln!(self.out, "{after} {}", GoFloat(value))
    }

    fn write_escaped(&mut self, text: &str, special: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '\n' => self.out.write_str("\\n")?,
                c if special.contains(c) => write!(self.out, "\\{c}")?,
                c => self.out.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Formats a number like Go's `strconv.FormatFloat` with format `g`: the shortest digits that parse to the same number, with
/// an exponent from 1e+06 and below 0.0001. If two shortest forms are equally near, Go chooses the even one; that occurs only
/// from 1e+13, where the difference does not matter.
struct GoFloat(f64);

impl fmt::Display for GoFloat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(value) = *self;
        if value.is_infinite() {
            return f.write_str(if value > 0.0 { "+Inf" } else { "-Inf" });
        }
        // Go's `expfmt` writes zero without a sign.
        if value.is_nan() || value == 0.0 {
            return f.write_str(if value.is_nan() { "NaN" } else { "0" });
        }
        if (0.0001..1e6).contains(&value.abs()) {
            return write!(f, "{value}");
        }
        let scientific = format!("{value:e}");
        let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
        write!(f, "{digits}e{sign}{exponent:0>2}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(write: impl FnOnce(&mut TextWriter<&mut String>) -> fmt::Result) -> String {
        let mut out = String::new();
        write(&mut TextWriter::new(&mut out)).unwrap();
        out
    }

    #[test]
    fn formats_numbers_like_go() {
        // By `strconv.FormatGoFloat(x, 'g', -1, 64)` of Go 1.26, and by `expfmt` for what that leaves open.
        for (number, expected) in [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (-1.0, "-1"),
            (604_800.0, "604800"),
            (100_000.5, "100000.5"),
            (999_999.0, "999999"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (-2_592_000.5, "-2.5920005e+06"),
            (124_416_000.0, "1.24416e+08"),
            (1e21, "1e+21"),
            (f64::MAX, "1.7976931348623157e+308"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00012345, "0.00012345"),
            (0.00001, "1e-05"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(GoFloat(number).to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn every_number_parses_to_itself(number in any::<f64>()) {
            let read: f64 = GoFloat(number).to_string().parse().unwrap();
            prop_assert_eq!(read, number);
        }
    }

    #[test]
    fn escapes_label_values() {
        let line = written(|text| text.count("n_total", &[("a", "say \"hi\"\n"), ("b", "C:\\é")], 3));
        assert_eq!(line, "n_total{a=\"say \\\"hi\\\"\\n\",b=\"C:\\\\é\"} 3\n");
    }

    #[test]
    fn escapes_help_text() {
        let family = written(|text| text.gauge("n", "one \"two\"\nC:\\", &[], 0.5));
        assert_eq!(family, "# HELP n one \"two\"\\nC:\\\\\n# TYPE n gauge\nn 0.5\n");
    }
}
