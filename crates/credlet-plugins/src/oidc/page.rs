//! The page on which a login ends: what became of it, for whom, and what to do now. It needs no script, fetches
//! nothing, and follows the light or dark of the person's system.

use credlet_api::visible;
use http::StatusCode;

use super::Error;

/// What the browser shows when it comes back.
#[derive(Clone, Debug)]
pub(super) struct Page {
    pub(super) status: StatusCode,
    title: &'static str,
    text: Vec<String>,
    facts: Vec<(&'static str, String)>,
}

/// What a page can say about a login.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// The API server, if the client said which.
    pub(super) cluster: Option<String>,
    pub(super) issuer: String,
}

impl Page {
    pub(super) fn logged_in(facts: &Facts, account: &str) -> Self {
        let text = vec!["Close this window and go back to where you came from: the work goes on there.".to_owned()];
        Self { status: StatusCode::OK, title: "You are logged in", text, facts: facts.rows(Some(account)) }
    }

    pub(super) fn failed(facts: &Facts, error: &Error) -> Self {
        let hint = error.hint().map(|hint| format!("What to do: {hint}."));
        let text = [Some(format!("{}.", sentence(&error.story()))), hint].into_iter().flatten().collect();
        Self { status: StatusCode::BAD_REQUEST, title: "You are not logged in", text, facts: facts.rows(None) }
    }

    pub(super) fn over() -> Self {
        let text = vec!["This login has ended already. Close this window, or begin another one.".to_owned()];
        Self { status: StatusCode::GONE, title: "Nothing to do here", text, facts: Vec::new() }
    }

    pub(super) fn html(&self) -> String {
        let (mood, drawing) = match self.status {
            StatusCode::OK => ("good", "M4 12.5l5.5 5.5L20 6.5"),
            _ => ("bad", "M12 4v10M12 19v.5"),
        };
        let text: String = self.text.iter().map(|text| format!("<p>{}</p>\n", escaped(text))).collect();
        let row = |(name, value): &(&str, String)| format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", escaped(value));
        let facts: String = self.facts.iter().map(row).collect();
        let facts = if facts.is_empty() { facts } else { format!("<dl>\n{facts}</dl>\n") };
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"robots\" content=\"noindex\">\n<link rel=\"icon\" href=\"data:,\">\n\
             <title>{title} · credlet</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main class=\"{mood}\">\n\
             <svg viewBox=\"0 0 24 24\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2.5\" \
             stroke-linecap=\"round\" stroke-linejoin=\"round\" aria-hidden=\"true\"><path d=\"{drawing}\"/></svg>\n\
             <h1>{title}</h1>\n{text}{facts}<footer>This page comes from credlet on this machine.</footer>\n</main>\n</body>\n</html>\n",
            title = self.title,
            style = include_str!("page.css"),
        )
    }
}

impl Facts {
    fn rows(&self, account: Option<&str>) -> Vec<(&'static str, String)> {
        let account = account.map(|account| ("Account", account.to_owned()));
        let cluster = self.cluster.clone().map(|cluster| ("Cluster", cluster));
        account.into_iter().chain(cluster).chain([("Issuer", self.issuer.clone())]).collect()
    }
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Foreign text as text: no markup, nothing that turns the direction of reading, and not endless.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for c in visible(text).chars().take(400) {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts { cluster: Some("https://api.example".into()), issuer: "https://id.example".into() }
    }

    #[test]
    fn foreign_text_stays_text() {
        let html = Page::logged_in(&facts(), "<script>alert('x')</script>\u{202e}&\"").html();
        assert!(html.contains("<dd>&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;U+202E&amp;&quot;</dd>"), "{html}");
        assert!(!html.contains("<script"), "{html}");
    }

    #[test]
    fn the_page_says_for_whom_and_where() {
        let html = Page::logged_in(&facts(), "ada@example.test").html();
        for text in ["You are logged in", "ada@example.test", "https://api.example", "https://id.example"] {
            assert!(html.contains(text), "{text}");
        }
        assert!(html.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn a_failure_says_what_to_do() {
        let html = Page::failed(&facts(), &Error::Denied { code: Some("access_denied") }).html();
        assert!(html.contains("The login was refused at the issuer (access_denied)."), "{html}");
        assert!(html.contains("What to do: log in again."), "{html}");
    }
}
