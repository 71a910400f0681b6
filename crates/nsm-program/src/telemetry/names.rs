//! The names and attributes that the mesh's Go components give their spans, so that a trace through
//! hops of both kinds reads as one.
//!
//! An element's span is named where it is made (see [`ElementLayer`](nsm_chain::trace::ElementLayer)).
//! The span of a whole call, or event, is named here: the name has the connection's id, which may
//! be known only when the call has ended. Both have the attributes `id` and `type`.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

/// Exports spans under these names.
#[derive(Debug)]
pub(super) struct Named<E>(pub(super) E);

impl<E: SpanExporter> SpanExporter for Named<E> {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        batch.iter_mut().for_each(name);
        self.0.export(batch).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

fn name(span: &mut SpanData) {
    let attribute = |key: &str| {
        let mut attributes = span.attributes.iter();
        let found = attributes.find(|attribute| attribute.key.as_str() == key)?;
        Some(found.value.to_string())
    };
    let Some(id) = attribute("connection.id") else {
        return;
    };
    if let ("call" | "event", Some(operation)) = (&*span.name, attribute("operation")) {
        let method = match operation.as_str() {
            "close" => "Close",
            // To refresh and to reselect are requests.
            _ => "Request",
        };
        span.name = format!("[id: {id}] [type: networkService] [method: {method}]").into();
    }
    span.attributes.push(KeyValue::new("id", id));
    span.attributes
        .push(KeyValue::new("type", "networkService"));
}
