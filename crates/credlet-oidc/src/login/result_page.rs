//! The page that the browser shows after the redirect: the result, the account and what to do next. It has no script, loads no
//! resources, and supports light and dark mode.

use credlet_api::escape_control_chars;
use http::StatusCode;

use super::OidcError;

/// A page for the browser.
#[derive(Clone, Debug)]
pub(super) struct ResultPage {
    pub(super) status: StatusCode,
    title: &'static str,
    text: Vec<String>,
    details: Vec<(&'static str, String)>,
}

/// Details of a login that a page shows.
#[derive(Clone, Debug, Default)]
pub(super) struct LoginDetails {
    /// URL of the API server, if the client stated it.
    pub(super) cluster: Option<String>,
    pub(super) issuer: String,
}

impl ResultPage {
    pub(super) fn logged_in(details: &LoginDetails, account: &str) -> Self {
        let text = vec!["You can close this window and return to the terminal.".to_owned()];
        Self { status: StatusCode::OK, title: "You are logged in", text, details: details.rows(Some(account)) }
    }

    pub(super) fn failed(details: &LoginDetails, error: &OidcError) -> Self {
        let hint = error.hint().map(|hint| format!("What to do: {hint}."));
        let text = [Some(format!("{}.", capitalize(&error.to_chained_string()))), hint].into_iter().flatten().collect();
        Self { status: StatusCode::BAD_REQUEST, title: "You are not logged in", text, details: details.rows(None) }
    }

    pub(super) fn login_completed() -> Self {
        Self::notice(StatusCode::GONE, "This login is over", "Close this window, or start another login.")
    }

    /// For a callback with another state, and for everything else that does not belong to the login.
    pub(super) fn not_this_login() -> Self {
        let text = "credlet ignored this request, because it does not belong to the login that it is waiting for. \
                    To log in, open the address that credlet printed.";
        Self::notice(StatusCode::BAD_REQUEST, "Not this login", text)
    }

    /// For a callback with the right state and without the cookie.
    pub(super) fn other_browser() -> Self {
        let text = "The login started in another browser, profile or container than the one that came back, so credlet \
                    ignored it. Finish the login where it started, or cancel the command and run it again.";
        Self::notice(StatusCode::FORBIDDEN, "Not the browser that started this login", text)
    }

    /// For a second browser that opens the start page.
    pub(super) fn already_opened() -> Self {
        let text = "Another browser has opened this login. Finish it there, or cancel the command and run it again. \
                    If it was not you who opened it, cancel the command.";
        Self::notice(StatusCode::CONFLICT, "This login is already open", text)
    }

    fn notice(status: StatusCode, title: &'static str, text: &str) -> Self {
        Self { status, title, text: vec![text.to_owned()], details: Vec::new() }
    }

    pub(super) fn html(&self) -> String {
        let (class, icon) = match self.status {
            StatusCode::OK => ("good", "M4 12.5l5.5 5.5L20 6.5"),
            _ => ("bad", "M12 4v10M12 19v.5"),
        };
        let text: String = self.text.iter().map(|text| format!("<p>{}</p>\n", escaped(text))).collect();
        let row = |(name, value): &(&str, String)| format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", escaped(value));
        let details: String = self.details.iter().map(row).collect();
        let details = if details.is_empty() { details } else { format!("<dl>\n{details}</dl>\n") };
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"robots\" content=\"noindex\">\n<link rel=\"icon\" href=\"data:,\">\n\
             <title>{title} · credlet</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main class=\"{class}\">\n\
             <svg viewBox=\"0 0 24 24\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2.5\" \
             stroke-linecap=\"round\" stroke-linejoin=\"round\" aria-hidden=\"true\"><path d=\"{icon}\"/></svg>\n\
             <h1>{title}</h1>\n{text}{details}<footer>This page comes from credlet on this machine.</footer>\n</main>\n</body>\n</html>\n",
            title = self.title,
            style = include_str!("result_page.css"),
        )
    }
}

impl LoginDetails {
    fn rows(&self, account: Option<&str>) -> Vec<(&'static str, String)> {
        let account = account.map(|account| ("Account", account.to_owned()));
        let cluster = self.cluster.clone().map(|cluster| ("Cluster", cluster));
        account.into_iter().chain(cluster).chain([("Issuer", self.issuer.clone())]).collect()
    }
}

fn capitalize(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Escapes markup and control characters, also those of bidirectional text, and limits the length.
fn escaped(text: &str) -> String {
    let mut safe = String::new();
    for c in escape_control_chars(text).chars().take(400) {
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

    fn details() -> LoginDetails {
        LoginDetails { cluster: Some("https://api.example".into()), issuer: "https://id.example".into() }
    }

    #[test]
    fn untrusted_text_is_escaped() {
        let html = ResultPage::logged_in(&details(), "<script>alert('x')</script>\u{202e}&\"").html();
        assert!(html.contains("<dd>&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;U+202E&amp;&quot;</dd>"), "{html}");
        assert!(!html.contains("<script"), "{html}");
    }

    #[test]
    fn page_shows_account_cluster_and_issuer() {
        let html = ResultPage::logged_in(&details(), "ada@example.test").html();
        for text in ["You are logged in", "ada@example.test", "https://api.example", "https://id.example"] {
            assert!(html.contains(text), "{text}");
        }
        assert!(html.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn failure_page_shows_hint() {
        let html = ResultPage::failed(&details(), &OidcError::Denied { code: Some("access_denied") }).html();
        assert!(html.contains("The login was refused at the issuer (access_denied)."), "{html}");
        assert!(html.contains("What to do: log in again."), "{html}");
    }
}
