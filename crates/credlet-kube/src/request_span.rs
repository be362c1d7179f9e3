//! Tracing span of a request, with the names and fields of kube (OpenTelemetry conventions).

use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderMap, Request, Response};
use tower_http::classify::{ServerErrorsAsFailures, ServerErrorsFailureClass, SharedClassifier};
use tower_http::trace::{MakeSpan, OnEos, OnFailure, OnRequest, OnResponse, TraceLayer};
use tracing::Span;
use tracing::field::Empty;

/// Creates the spans for requests to one server.
#[derive(Clone, Debug)]
pub(crate) struct RequestSpans {
    /// URL of the server without a trailing `/`. Requests have only the path below it.
    server: Arc<str>,
}

pub(crate) type SpanLayer = TraceLayer<
    SharedClassifier<ServerErrorsAsFailures>,
    RequestSpans,
    RequestSpans,
    RequestSpans,
    (),
    RequestSpans,
    RequestSpans,
>;

impl RequestSpans {
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

impl<B> MakeSpan<B> for RequestSpans {
    fn make_span(&mut self, request: &Request<B>) -> Span {
        let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        tracing::debug_span!(
            "HTTP",
            http.method = %request.method(),
            http.url = format_args!("{}{path}", self.server),
            http.status_code = Empty,
            // kube stores the operation (list, watch, patch …) as an extension.
            otel.name = request.extensions().get::<&'static str>().unwrap_or(&"HTTP"),
            otel.kind = "client",
            otel.status_code = Empty,
        )
    }
}

impl<B> OnRequest<B> for RequestSpans {
    fn on_request(&mut self, _: &Request<B>, _: &Span) {
        tracing::debug!("requesting");
    }
}

impl<B> OnResponse<B> for RequestSpans {
    fn on_response(self, response: &Response<B>, _: Duration, span: &Span) {
        let status = response.status();
        span.record("http.status_code", status.as_u16());
        if status.is_client_error() || status.is_server_error() {
            span.record("otel.status_code", "ERROR");
        }
    }
}

impl OnEos for RequestSpans {
    fn on_eos(self, _: Option<&HeaderMap>, _: Duration, _: &Span) {
        tracing::debug!("response body completed");
    }
}

impl OnFailure<ServerErrorsFailureClass> for RequestSpans {
    /// Called without a response, for an incomplete one, or for a status of 500 and above.
    fn on_failure(&mut self, failure: ServerErrorsFailureClass, _: Duration, span: &Span) {
        span.record("otel.status_code", "ERROR");
        match failure {
            ServerErrorsFailureClass::StatusCode(status) => {
                span.record("http.status_code", status.as_u16());
                tracing::error!(%status, "server error");
            }
            ServerErrorsFailureClass::Error(error) => tracing::error!(error, "request failed"),
        }
    }
}
