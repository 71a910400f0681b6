//! Where the client runs.

use nsm_chain::ClientInfo;

/// Where the client runs, for endpoints that are selected by it. In a pod these variables are filled
/// in from its own description.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Where it runs")]
pub struct Place {
    /// The node, told to the mesh as label nodeName of all connections
    #[arg(long, env = "NODE_NAME", value_name = "NAME", default_value = "")]
    pub node_name: String,

    /// The pod, told as label podName
    #[arg(long, env = "POD_NAME", value_name = "NAME", default_value = "")]
    pub pod_name: String,

    /// The cluster, told as label clusterName
    #[arg(long, env = "CLUSTER_NAME", value_name = "NAME", default_value = "")]
    pub cluster_name: String,
}

impl Place {
    /// The same, for connections.
    pub fn client_info(&self) -> ClientInfo {
        ClientInfo {
            node: Some(self.node_name.clone()),
            pod: Some(self.pod_name.clone()),
            cluster: Some(self.cluster_name.clone()),
        }
    }
}
