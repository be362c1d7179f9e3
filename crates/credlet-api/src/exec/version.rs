use crate::wire::version::api_versions;

api_versions! {
    /// A version of `client.authentication.k8s.io`.
    "client.authentication.k8s.io" {
        /// The first one, of 2018. Kubernetes removed it in 1.24; old plugins still speak it.
        V1alpha1 = "v1alpha1",
        /// Since Kubernetes 1.11.
        V1beta1 = "v1beta1",
        /// Since Kubernetes 1.22.
        V1 = "v1",
    }
}
