//! The small web server to which the browser comes back.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use credlet_client::conn::is_loopback;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, LOCATION, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::Error;
use super::page::Page;
use super::query::Query;
use super::settings::{Redirect, Settings};

/// How long the last page may take on its way to the browser.
const LAST_PAGE: Duration = Duration::from_secs(2);

/// A place to come back to. Nobody is served yet.
pub(super) struct Loopback {
    listener: TcpListener,
    port: u16,
    redirect: Redirect,
}

impl Loopback {
    /// Listens at the first address that is free.
    pub(super) async fn bind(settings: &Settings) -> Result<Self, Error> {
        let mut problem = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
        for address in &settings.listen {
            match TcpListener::bind(address).await.and_then(|listener| Ok((listener.local_addr()?, listener))) {
                Ok((address, listener)) => {
                    return Ok(Self { listener, port: address.port(), redirect: settings.redirect.clone() });
                }
                Err(error) => problem = error,
            }
        }
        let tried: Vec<String> = settings.listen.iter().map(SocketAddr::to_string).collect();
        Err(Error::Listen { tried: tried.join(" and "), source: problem })
    }

    /// What the issuer is told.
    pub(super) fn redirect_uri(&self) -> String {
        match &self.redirect {
            Redirect::Host(host) => format!("http://{host}:{}", self.port),
            Redirect::Url(url) => url.clone(),
        }
    }

    /// What the person's browser opens: short enough to be read aloud, and without anything that others should not see
    /// in a list of processes. It leads on to the issuer.
    pub(super) fn start_url(&self) -> String {
        match &self.redirect {
            Redirect::Host(host) => format!("http://{host}:{}/", self.port),
            Redirect::Url(_) => format!("http://localhost:{}/", self.port),
        }
    }

    /// Serves until it is dropped or closed.
    pub(super) fn open(self, authorization_url: HeaderValue) -> Visits {
        let (visits, incoming) = mpsc::channel(1);
        let redirect: Option<Uri> = self.redirect_uri().parse().ok();
        let path = redirect.as_ref().map(Uri::path).filter(|path| !path.is_empty()).unwrap_or("/").to_owned();
        let host = redirect.as_ref().and_then(Uri::host).unwrap_or_default().to_owned();
        let desk = Arc::new(Desk { authorization_url, path, host, visits });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(self.listener, desk));
        Visits { incoming, tasks }
    }
}

/// The browsers that come back with an answer.
pub(super) struct Visits {
    incoming: mpsc::Receiver<Visit>,
    tasks: JoinSet<()>,
}

impl Visits {
    /// The next one. It never ends without one.
    pub(super) async fn next(&mut self) -> Visit {
        match self.incoming.recv().await {
            Some(visit) => visit,
            None => std::future::pending().await,
        }
    }

    /// Waits until the page that was answered last has been sent.
    pub(super) async fn close(mut self, sent: oneshot::Receiver<()>) {
        let _ = tokio::time::timeout(LAST_PAGE, sent).await;
        self.tasks.abort_all();
    }
}

/// A browser with an answer, waiting for a page.
pub(super) struct Visit {
    pub(super) query: Query,
    reply: oneshot::Sender<(Reply, oneshot::Sender<()>)>,
}

/// What a visitor gets.
pub(super) enum Reply {
    Page(Page),
    /// Another page on the web.
    Elsewhere(HeaderValue),
}

impl Visit {
    /// Lets the visitor go, and tells when the page is on its way.
    pub(super) fn answer(self, reply: Reply) -> oneshot::Receiver<()> {
        let (sent, seen) = oneshot::channel();
        // A browser that has gone away needs no page.
        let _ = self.reply.send((reply, sent));
        seen
    }
}

/// What every connection needs to know.
struct Desk {
    authorization_url: HeaderValue,
    path: String,
    host: String,
    visits: mpsc::Sender<Visit>,
}

async fn accept(listener: TcpListener, desk: Arc<Desk>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                connections.spawn(serve(stream, Arc::clone(&desk)));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: tokio::net::TcpStream, desk: Arc<Desk>) {
    // Dropped when the connection has ended, and with it the page has been sent.
    let last = Arc::new(std::sync::Mutex::new(None));
    let service = service_fn(|request: Request<Incoming>| {
        let (desk, last) = (Arc::clone(&desk), Arc::clone(&last));
        async move {
            let (response, sent) = desk.respond(&request).await;
            if let (Some(sent), Ok(mut last)) = (sent, last.lock()) {
                *last = Some(sent);
            }
            Ok::<_, Infallible>(response)
        }
    });
    // A browser opens connections that it may never use; those are not waited for.
    let http = http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(30))
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), service);
    // Whatever is wrong with a connection, the browser will show it.
    let _ = http.await;
}

impl Desk {
    async fn respond(&self, request: &Request<Incoming>) -> (Response<String>, Option<oneshot::Sender<()>>) {
        if let Err(status) = self.is_for_us(request) {
            let mut refusal = Response::new(String::new());
            *refusal.status_mut() = status;
            if status == StatusCode::METHOD_NOT_ALLOWED {
                refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            }
            return (refusal, None);
        }
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let came_back = request.uri().path() == self.path && query.is_answer();
        if !came_back {
            return match request.uri().path() {
                "/" => (moved(&self.authorization_url), None),
                _ => (plain(StatusCode::NOT_FOUND), None),
            };
        }
        let (reply, answered) = oneshot::channel();
        if self.visits.send(Visit { query, reply }).await.is_err() {
            return (shown(&Page::over()), None);
        }
        match answered.await {
            Ok((Reply::Page(page), sent)) => (shown(&page), Some(sent)),
            Ok((Reply::Elsewhere(url), sent)) => (moved(&url), Some(sent)),
            Err(_) => (shown(&Page::over()), None),
        }
    }

    /// Any page on the web can have a browser ask here for a picture, and any name can be made to lead to this machine.
    /// What comes back from a login is a page that a person goes to, at the address we gave.
    fn is_for_us(&self, request: &Request<Incoming>) -> Result<(), StatusCode> {
        if request.method() != Method::GET {
            return Err(StatusCode::METHOD_NOT_ALLOWED);
        }
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let host: Option<Uri> = header(HOST.as_str()).and_then(|host| host.parse().ok());
        let host = host.as_ref().and_then(Uri::host).unwrap_or_default().trim_matches(['[', ']']);
        if !is_loopback(host) && !host.eq_ignore_ascii_case(&self.host) {
            return Err(StatusCode::MISDIRECTED_REQUEST);
        }
        match header("sec-fetch-dest") {
            None | Some("document") => Ok(()),
            Some(_) => Err(StatusCode::FORBIDDEN),
        }
    }
}

fn moved(to: &HeaderValue) -> Response<String> {
    let mut response = plain(StatusCode::FOUND);
    response.headers_mut().insert(LOCATION, to.clone());
    response
}

fn shown(page: &Page) -> Response<String> {
    let mut response = plain(page.status);
    *response.body_mut() = page.html();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response
}

fn plain(status: StatusCode) -> Response<String> {
    let mut response = Response::new(String::new());
    *response.status_mut() = status;
    for (name, value) in [
        // The address of the page has the code in it.
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; \
             frame-ancestors 'none'",
        ),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
