//! The demo as a moving picture: an SVG that needs no script, in the colours of whoever looks at it.
//!
//! All frames lie below each other on one strip, which moves past a window by steps. Lines that occur in several frames
//! are written once. Without animation (some viewers, or people who prefer it so) the last frame is what is seen.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::draw;
use super::line::{Line, Style};
use crate::commands::demo::board::Scene;

const COLUMNS: usize = 90;
const EVERY: Duration = Duration::from_millis(250);

/// How long the last frame stands.
const REST: Duration = Duration::from_secs(6);

/// Pixels: of a character, of a line, around the text, and of the window's title.
const CELL: f64 = 8.4;
const LINE: usize = 20;
const MARGIN: usize = 16;
const TITLE: usize = 36;

/// Frames, and when each was taken.
#[derive(Default)]
pub(super) struct Film {
    frames: Vec<(Duration, Vec<Line>)>,
}

impl Film {
    pub(super) fn take(&mut self, scene: &Scene) {
        let is_due = self.frames.last().is_none_or(|(last, _)| scene.now >= *last + EVERY);
        if is_due || scene.verdict().is_some() {
            self.frames.push((scene.now, draw::frame(scene, COLUMNS)));
        }
    }

    pub(super) fn svg(&self) -> String {
        let rows = self.frames.iter().map(|(_, lines)| lines.len()).max().unwrap_or_default();
        let width = (COLUMNS as f64 * CELL) as usize + 2 * MARGIN;
        let (screen, last) = (rows * LINE, self.frames.len().saturating_sub(1));
        let height = TITLE + screen + MARGIN;
        let mut lines = Lines::default();
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
<!-- Made of a real run by `credlet demo` (record). -->
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
            label = escaped(&self.frames.last().map(|(_, lines)| spoken(lines)).unwrap_or_default()),
            keyframes = self.keyframes(screen),
            definitions = lines.definitions,
            inner_width = width - 1,
            inner_height = height - 1,
            middle = width / 2,
            text_width = width - 2 * MARGIN,
        )
    }

    /// When the strip moves on, as shares of the whole time.
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

/// For those who listen: what held.
fn spoken(lines: &[Line]) -> String {
    let lines = lines.iter().map(Line::plain).filter(|line| line.contains(['✓', '✗']) || line.contains("held"));
    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join("; ")
}

/// Each different line once.
#[derive(Default)]
struct Lines {
    numbers: HashMap<String, usize>,
    definitions: String,
}

impl Lines {
    fn id(&mut self, line: &Line) -> String {
        let drawn = drawn(line);
        let next = self.numbers.len();
        let number = *self.numbers.entry(drawn).or_insert_with_key(|drawn| {
            let _ = writeln!(self.definitions, r#"<text id="l{next}">{drawn}</text>"#);
            next
        });
        format!("l{number}")
    }
}

/// Every word stands where it belongs, whatever the width of the viewer's letters. Lines and blocks are stretched to
/// their width, so that there are no gaps in them.
fn drawn(line: &Line) -> String {
    let mut text = String::new();
    let mut column = 0;
    for (style, piece) in &line.pieces {
        for part in parts(piece) {
            let word = part.trim();
            if !word.is_empty() {
                // Blanks at the ends are not for viewers, some of which swallow them.
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

/// Parts with two blanks or more between them; the blanks stay with the part before.
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

fn class(style: Style) -> Option<&'static str> {
    Some(match style {
        Style::Plain => return None,
        Style::Dim => "d",
        Style::Bold => "b",
        Style::Good => "g",
        Style::Bad => "r",
        Style::Token => "t",
        Style::NextToken => "u",
        Style::Certificate => "c",
        Style::NextCertificate => "e",
        Style::Watch => "w",
        Style::Latency => "y",
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
    fn parts_keep_their_columns() {
        assert_eq!(parts(" ab c  d   "), [" ab c  ", "d   ", ""]);
        let line = Line::default().add(Style::Plain, "a  <b>").add(Style::Good, "✓");
        let expected = "<tspan x=\"0.0\">a</tspan><tspan x=\"25.2\">&lt;b&gt;</tspan>\
                        <tspan x=\"50.4\" class=\"g\" textLength=\"8.4\" lengthAdjust=\"spacingAndGlyphs\">✓</tspan>";
        assert_eq!(drawn(&line), expected);
    }

    #[test]
    fn a_film_has_each_line_once_and_each_frame_in_its_time() {
        let mut film = Film::default();
        let line = || Line::default().add(Style::Plain, "same");
        for second in 0..3 {
            film.frames.push((Duration::from_secs(second), vec![line(), line()]));
        }
        let svg = film.svg();
        assert_eq!(svg.matches(">same</tspan>").count(), 1);
        assert_eq!(svg.matches("href=\"#l0\"").count(), 6);
        assert!(
            svg.contains("\n0.00% { transform: translateY(-0px) }\n12.50% { transform: translateY(-40px) }"),
            "{svg}"
        );
        assert!(svg.contains("translate(0,-80)"), "{svg}");
    }
}
