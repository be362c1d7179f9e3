//! Records the demo as an animated SVG without scripts, for light and dark colour schemes.
//!
//! All frames are below each other on one strip, which a CSS animation moves past a window in steps. A line that occurs in several
//! frames is written once. Without animation (unsupported, or `prefers-reduced-motion`) the last frame is shown.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::frame;
use super::styled_line::{SpanStyle, StyledLine};
use crate::commands::demo::state::DemoSnapshot;

const COLUMNS: usize = 90;
const EVERY: Duration = Duration::from_millis(250);

/// Display time of the last frame.
const REST: Duration = Duration::from_secs(6);

/// Sizes in pixels: width of a character, height of a line, margin of the text, height of the window title.
const CELL: f64 = 8.4;
const LINE: usize = 20;
const MARGIN: usize = 16;
const TITLE: usize = 36;

/// Frames with their times.
#[derive(Default)]
pub(super) struct SvgRecording {
    frames: Vec<(Duration, Vec<StyledLine>)>,
}

impl SvgRecording {
    /// Adds a frame, at most every [`EVERY`] before the last one.
    pub(super) fn record(&mut self, snapshot: &DemoSnapshot) {
        let is_due = self.frames.last().is_none_or(|(last, _)| snapshot.now >= *last + EVERY);
        if is_due || snapshot.verdict().is_some() {
            self.frames.push((snapshot.now, frame::frame(snapshot, COLUMNS)));
        }
    }

    pub(super) fn svg(&self) -> String {
        let rows = self.frames.iter().map(|(_, lines)| lines.len()).max().unwrap_or_default();
        let width = (COLUMNS as f64 * CELL) as usize + 2 * MARGIN;
        let (screen, last) = (rows * LINE, self.frames.len().saturating_sub(1));
        let height = TITLE + screen + MARGIN;
        let mut lines = LineDefinitions::default();
        let mut strip = String::new();
        for (number, (_, frame)) in self.frames.iter().enumerate() {
            for (row, line) in frame.iter().enumerate().filter(|(_, line)| !line.plain().is_empty()) {
                let y = number * screen + row * LINE + LINE - 5;
                let _ = writeln!(strip, r##"<use href="#{}" y="{y}"/>"##, lines.id(line));
            }
        }
        let end = last * screen;
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="credlet demo: {label}">
<!-- Recorded by `credlet demo` (record). -->
<style>
{STYLE}{keyframes}</style>
<defs>
{definitions}</defs>
<rect class="window" x="0.5" y="0.5" width="{inner_width}" height="{inner_height}" rx="10"/>
<g class="lights"><circle cx="20" cy="18" r="5.5"/><circle cx="38" cy="18" r="5.5"/><circle cx="56" cy="18" r="5.5"/></g>
<text class="name" x="{middle}" y="23" text-anchor="middle">credlet demo</text>
<svg x="{MARGIN}" y="{TITLE}" width="{text_width}" height="{screen}">
<g class="strip" transform="translate(0,-{end})">
{strip}</g>
</svg>
</svg>
"#,
            label = escaped(&self.frames.last().map(|(_, lines)| aria_label(lines)).unwrap_or_default()),
            keyframes = self.keyframes(screen),
            definitions = lines.definitions,
            inner_width = width - 1,
            inner_height = height - 1,
            middle = width / 2,
            text_width = width - 2 * MARGIN,
        )
    }

    /// The keyframes, as percentages of the whole duration.
    fn keyframes(&self, screen: usize) -> String {
        let Some((end, _)) = self.frames.last() else { return String::new() };
        let whole = (*end + REST).as_secs_f64();
        let mut text = format!(
            ".strip {{ animation: play {whole:.2}s step-end infinite }}\n\
             @media (prefers-reduced-motion: reduce) {{ .strip {{ animation: none }} }}\n@keyframes play {{\n"
        );
        for (number, (at, _)) in self.frames.iter().enumerate() {
            let share = if number == 0 { 0.0 } else { at.as_secs_f64() / whole * 100.0 };
            let _ = writeln!(text, "{share:.2}% {{ transform: translateY(-{}px) }}", number * screen);
        }
        let _ = writeln!(text, "}}");
        text
    }
}

/// The checks and the result as text for screen readers.
fn aria_label(lines: &[StyledLine]) -> String {
    let lines = lines.iter().map(StyledLine::plain).filter(|line| line.contains(['✓', '✗']) || line.contains("checks"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("; ")
}

/// Definitions of the distinct lines.
#[derive(Default)]
struct LineDefinitions {
    numbers: HashMap<String, usize>,
    definitions: String,
}

impl LineDefinitions {
    fn id(&mut self, line: &StyledLine) -> String {
        let drawn = drawn(line);
        let next = self.numbers.len();
        let number = *self.numbers.entry(drawn).or_insert_with_key(|drawn| {
            let _ = writeln!(self.definitions, r#"<text id="l{next}">{drawn}</text>"#);
            next
        });
        format!("l{number}")
    }
}

/// Returns the spans of a line. Each span is positioned explicitly, because the width of the viewer's font is unknown. Box-drawing
/// characters are stretched to their width, so that there are no gaps.
fn drawn(line: &StyledLine) -> String {
    let mut text = String::new();
    let mut column = 0;
    for (style, piece) in &line.pieces {
        for part in parts(piece) {
            let word = part.trim();
            if !word.is_empty() {
                // Some viewers drop leading and trailing spaces.
                let before = part.chars().take_while(|c| *c == ' ').count();
                let x = (column + before) as f64 * CELL;
                let _ = write!(text, r#"<tspan x="{x:.1}""#);
                if let Some(class) = class(*style) {
                    let _ = write!(text, r#" class="{class}""#);
                }
                if !word.is_ascii() {
                    let width = word.chars().count() as f64 * CELL;
                    let _ = write!(text, r#" textLength="{width:.1}" lengthAdjust="spacingAndGlyphs""#);
                }
                let _ = write!(text, ">{}</tspan>", escaped(word));
            }
            column += part.chars().count();
        }
    }
    text
}

/// Splits at two or more spaces; the spaces stay with the part before them.
fn parts(piece: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = piece;
    while let Some(gap) = rest.find("  ") {
        let end = rest[gap..].find(|c| c != ' ').map_or(rest.len(), |length| gap + length);
        let (part, behind) = rest.split_at(end);
        parts.push(part);
        rest = behind;
    }
    parts.push(rest);
    parts
}

fn class(style: SpanStyle) -> Option<&'static str> {
    Some(match style {
        SpanStyle::Plain => return None,
        SpanStyle::Dim => "d",
        SpanStyle::Bold => "b",
        SpanStyle::Good => "g",
        SpanStyle::Bad => "r",
        SpanStyle::Token => "t",
        SpanStyle::NextToken => "u",
        SpanStyle::Certificate => "c",
        SpanStyle::NextCertificate => "e",
        SpanStyle::Watch => "w",
        SpanStyle::Latency => "y",
    })
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

const STYLE: &str = r#"text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #24292f; white-space: pre }
.window { fill: #fbfcfd; stroke: #d0d7de }
.lights { fill: #d0d7de }
.name, .d { fill: #6e7781 }
.name { font-size: 12px }
.b { font-weight: 600 }
.g { fill: #1a7f37 }
.r { fill: #cf222e; font-weight: 600 }
.t { fill: #0a7ea4 }
.u { fill: #3fb0d3 }
.c { fill: #8250df }
.e { fill: #b58cf2 }
.w { fill: #0969da }
.y { fill: #bf8700 }
@media (prefers-color-scheme: dark) {
text { fill: #d7dee6 }
.window { fill: #0f141a; stroke: #2b333d }
.lights { fill: #323b46 }
.name, .d { fill: #8b949e }
.g { fill: #3fb950 }
.r { fill: #ff7b72 }
.t { fill: #39c5cf }
.u { fill: #1f8a99 }
.c { fill: #bc8cff }
.e { fill: #8356c9 }
.w { fill: #58a6ff }
.y { fill: #d29922 }
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_columns_of_parts() {
        assert_eq!(parts(" ab c  d   "), [" ab c  ", "d   ", ""]);
        let line = StyledLine::default().add(SpanStyle::Plain, "a  <b>").add(SpanStyle::Good, "✓");
        let expected = "<tspan x=\"0.0\">a</tspan><tspan x=\"25.2\">&lt;b&gt;</tspan>\
                        <tspan x=\"50.4\" class=\"g\" textLength=\"8.4\" lengthAdjust=\"spacingAndGlyphs\">✓</tspan>";
        assert_eq!(drawn(&line), expected);
    }

    #[test]
    fn writes_each_line_once_and_keyframes() {
        let mut recording = SvgRecording::default();
        let line = || StyledLine::default().add(SpanStyle::Plain, "same");
        for second in 0..3 {
            recording.frames.push((Duration::from_secs(second), vec![line(), line()]));
        }
        let svg = recording.svg();
        assert_eq!(svg.matches(">same</tspan>").count(), 1);
        assert_eq!(svg.matches("href=\"#l0\"").count(), 6);
        assert!(
            svg.contains("\n0.00% { transform: translateY(-0px) }\n12.50% { transform: translateY(-40px) }"),
            "{svg}"
        );
        assert!(svg.contains("translate(0,-80)"), "{svg}");
    }
}
