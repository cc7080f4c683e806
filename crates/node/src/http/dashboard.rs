//! `/`: the replica as a page. It is three files in the program, asks this replica alone, and loads
//! nothing from anywhere else.

use std::sync::Arc;

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::Facts;

/// What the page may load: what comes from here.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The page and what it needs.
pub(super) fn routes() -> Router<Arc<Facts>> {
    Router::new()
        .route("/", get(|| file("text/html", include_str!("dashboard/index.html"))))
        .route(
            "/dashboard.js",
            get(|| file("text/javascript", include_str!("dashboard/dashboard.js"))),
        )
        .route("/dashboard.css", get(|| file("text/css", include_str!("dashboard/dashboard.css"))))
}

async fn file(kind: &str, text: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, format!("{kind}; charset=utf-8")),
        (CONTENT_SECURITY_POLICY, POLICY.to_owned()),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (REFERRER_POLICY, "no-referrer".to_owned()),
        // A program that was replaced has another page.
        (CACHE_CONTROL, "no-cache".to_owned()),
    ];
    (headers, text).into_response()
}
