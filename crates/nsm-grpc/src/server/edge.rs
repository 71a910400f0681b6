//! From the generated service to a chain.

use http::Extensions;
use nsm_api::connection::Connection;
use nsm_api::networkservice::NetworkServiceRequest;
use nsm_api::networkservice::network_service_server as grpc;
use nsm_chain::{BoxNetworkService, Call};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};
use tower::ServiceExt;

use crate::{Peer, header, status};

/// The generated service over a chain.
#[derive(Clone)]
pub(super) struct Edge {
    pub(super) chain: BoxNetworkService,
}

#[tonic::async_trait]
impl grpc::NetworkService for Edge {
    async fn request(
        &self,
        request: Request<NetworkServiceRequest>,
    ) -> Result<Response<Connection>, Status> {
        let (metadata, mut extensions, message) = request.into_parts();
        let call = accompanied(Call::request(message), metadata, &mut extensions)?;
        self.answer(call).await.map(Response::new)
    }

    async fn close(&self, request: Request<Connection>) -> Result<Response<()>, Status> {
        let (metadata, mut extensions, message) = request.into_parts();
        let call = accompanied(Call::close(message), metadata, &mut extensions)?;
        self.answer(call).await.map(|_| Response::new(()))
    }
}

impl Edge {
    async fn answer(&self, call: Call) -> Result<Connection, Status> {
        let chain = self.chain.clone();
        chain
            .oneshot(call)
            .await
            .map_err(|error| status::status_of(&error))
    }
}

/// Gives a call what came along with it.
fn accompanied(
    mut call: Call,
    metadata: MetadataMap,
    extensions: &mut Extensions,
) -> Result<Call, Status> {
    let headers = metadata.into_headers();
    call.deadline = header::deadline(&headers)
        .map_err(|malformed| Status::invalid_argument(malformed.to_string()))?;
    call.metadata = header::of_the_call(headers);
    if let Some(peer) = extensions.remove::<Peer>() {
        call.extensions.insert(peer);
    }
    Ok(call)
}
