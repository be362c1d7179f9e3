//! The span of a request, named and filled as kube does it: by OpenTelemetry's conventions.

use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderMap, Request, Response};
use tower_http::classify::{ServerErrorsAsFailures, ServerErrorsFailureClass, SharedClassifier};
use tower_http::trace::{MakeSpan, OnEos, OnFailure, OnRequest, OnResponse, TraceLayer};
use tracing::Span;
use tracing::field::Empty;

/// Makes the spans of one server's requests.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    /// The server's address without a `/` at its end: requests name only the path below it.
    server: Arc<str>,
}

pub(crate) type SpanLayer = TraceLayer<SharedClassifier<ServerErrorsAsFailures>, Spans, Spans, Spans, (), Spans, Spans>;

impl Spans {
    pub(crate) fn layer(server: &str) -> SpanLayer {
        let spans = Self { server: server.trim_end_matches('/').into() };
        TraceLayer::new_for_http()
            .make_span_with(spans.clone())
            .on_request(spans.clone())
            .on_response(spans.clone())
            .on_body_chunk(())
            .on_eos(spans.clone())
            .on_failure(spans)
    }
}

impl<B> MakeSpan<B> for Spans {
    fn make_span(&mut self, request: &Request<B>) -> Span {
        let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        tracing::debug_span!(
            "HTTP",
            http.method = %request.method(),
            http.url = format_args!("{}{path}", self.server),
            http.status_code = Empty,
            // kube says what it is about to do: list, watch, patch …
            otel.name = request.extensions().get::<&'static str>().unwrap_or(&"HTTP"),
            otel.kind = "client",
            otel.status_code = Empty,
        )
    }
}

impl<B> OnRequest<B> for Spans {
    fn on_request(&mut self, _: &Request<B>, _: &Span) {
        tracing::debug!("requesting");
    }
}

impl<B> OnResponse<B> for Spans {
    fn on_response(self, response: &Response<B>, _: Duration, span: &Span) {
        let status = response.status();
        span.record("http.status_code", status.as_u16());
        if status.is_client_error() || status.is_server_error() {
            span.record("otel.status_code", "ERROR");
        }
    }
}

impl OnEos for Spans {
    fn on_eos(self, _: Option<&HeaderMap>, _: Duration, _: &Span) {
        tracing::debug!("the answer has ended");
    }
}

impl OnFailure<ServerErrorsFailureClass> for Spans {
    /// No answer, a broken one, or one with a status of 500 and more.
    fn on_failure(&mut self, failure: ServerErrorsFailureClass, _: Duration, span: &Span) {
        span.record("otel.status_code", "ERROR");
        match failure {
            ServerErrorsFailureClass::StatusCode(status) => {
                span.record("http.status_code", status.as_u16());
                tracing::error!(%status, "the server failed");
            }
            ServerErrorsFailureClass::Error(error) => tracing::error!(error, "the request failed"),
        }
    }
}
