use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use credlet_api::image::ApiVersion;
use credlet_plugins::image::ecr;
use serde_json::{Value, json};

use crate::peer::{Peer, Reply, Seen};
use crate::support::Stage;

pub(crate) const PRIVATE: &str = "123456789012.dkr.ecr.eu-west-3.amazonaws.com";

/// A node with keys, and an API that gives out this password until then.
pub(crate) fn node(ends: Value) -> (Stage, Peer, String) {
    let mut stage = Stage::new(ecr::run);
    let password = stage.secret("password of the registry");
    let token = STANDARD.encode(format!("AWS:{password}"));
    let api = Peer::start(move |asked| {
        let given = json!({"authorizationToken": token, "expiresAt": ends, "proxyEndpoint": "https://somewhere"});
        let public = asked.header("x-amz-target").starts_with("SpencerFrontendService.");
        Reply::Answer(200, json!({"authorizationData": if public { given } else { json!([given]) }}).to_string())
    });
    let key = stage.secret("secret access key");
    stage.set("AWS_EC2_METADATA_DISABLED", "true");
    stage.set("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE");
    stage.set("AWS_SECRET_ACCESS_KEY", key);
    stage.set("AWS_ENDPOINT_URL", &api.url);
    (stage, api, password)
}

/// 12 hours after the test's time, as AWS gives it.
pub(crate) fn usual() -> Value {
    json!(1_794_813_469.123)
}

fn signed_for(asked: &Seen) -> String {
    let scope = asked.header("authorization").split('/').skip(2).take(2).collect::<Vec<_>>();
    scope.join("/")
}

#[test]
fn a_private_registry_gets_the_password_of_its_region() {
    let (stage, api, password) = node(usual());
    let run = stage.ask("", &format!("{PRIVATE}/team/app"));
    assert_eq!(
        run.stdout,
        format!(
            "{{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
             \"cacheKeyType\":\"Registry\",\"cacheDuration\":\"6h0m0s\",\
             \"auth\":{{\"{PRIVATE}\":{{\"username\":\"AWS\",\"password\":\"{password}\"}}}}}}\n"
        )
    );
    let asked = &api.seen()[0];
    assert_eq!((&*asked.method, &*asked.path, &*asked.body), ("POST", "/", "{}"));
    assert_eq!(asked.header("content-type"), "application/x-amz-json-1.1");
    assert_eq!(asked.header("x-amz-target"), "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken");
    assert_eq!(signed_for(asked), "eu-west-3/ecr");
    assert!(asked.header("authorization").contains("SignedHeaders=content-type;host;x-amz-date;x-amz-target,"));
}

#[test]
fn the_public_registry_gets_its_own() {
    for host in ["public.ecr.aws", "ecr-public.aws.com"] {
        let (mut stage, api, password) = node(usual());
        stage.set("AWS_REGION", "eu-west-3");
        let run = stage.ask("", &format!("{host}/team/app"));
        assert_eq!(run.auth(), [format!("{host} AWS:{password}")]);
        let asked = &api.seen()[0];
        assert_eq!(asked.header("x-amz-target"), "SpencerFrontendService.GetAuthorizationToken");
        assert_eq!(signed_for(asked), "us-east-1/ecr-public");
    }
}

#[test]
fn the_api_may_have_an_address_of_its_own() {
    let (mut stage, api, password) = node(usual());
    stage.set("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
    stage.set("AWS_ENDPOINT_URL_ECR", format!("{}/ecr", api.url));
    stage.set("AWS_ENDPOINT_URL_ECR_PUBLIC", &api.url);
    assert_eq!(stage.ask("", PRIVATE).auth(), [format!("{PRIVATE} AWS:{password}")]);
    assert_eq!(stage.ask("", "public.ecr.aws/x").auth(), [format!("public.ecr.aws AWS:{password}")]);
    assert_eq!(api.seen().iter().map(|asked| &*asked.path).collect::<Vec<_>>(), ["/ecr/", "/"]);
}

#[test]
fn registries_are_known_by_whole_names_as_the_vectors_say() {
    let vectors: Value = serde_json::from_str(include_str!("hosts.json")).unwrap();
    let vectors = vectors["ecrPrivateHost"].as_array().unwrap();
    let (stage, api, password) = node(usual());
    for vector in vectors {
        let host = vector["host"].as_str().unwrap();
        let expected: Vec<_> =
            vector["match"].as_bool().unwrap().then(|| format!("{host} AWS:{password}")).into_iter().collect();
        assert_eq!(stage.ask("", &format!("{host}/team/app")).auth(), expected, "{host}");
    }
    assert_eq!(api.seen().len(), vectors.iter().filter(|vector| vector["match"] == true).count());
}

#[test]
fn every_partition_is_signed_for_with_its_own_region() {
    for (host, region) in [
        ("123456789012.dkr.ecr.us-west-2.amazonaws.com", "us-west-2"),
        ("123456789012.dkr.ecr-fips.us-gov-east-1.amazonaws.com", "us-gov-east-1"),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("123456789012.dkr.ecr.us-iso-east-1.c2s.ic.gov", "us-iso-east-1"),
        ("123456789012.dkr.ecr.us-isob-east-1.sc2s.sgov.gov", "us-isob-east-1"),
        ("123456789012.dkr.ecr.eu-isoe-west-1.cloud.adc-e.uk", "eu-isoe-west-1"),
        ("123456789012.dkr.ecr.us-isof-south-1.csp.hci.ic.gov", "us-isof-south-1"),
        ("123456789012.dkr.ecr.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
        ("123456789012.dkr-ecr.us-west-2.on.aws", "us-west-2"),
        ("123456789012.dkr-ecr-fips.us-west-2.on.aws", "us-west-2"),
        ("123456789012.dkr-ecr.cn-north-1.on.amazonwebservices.com.cn", "cn-north-1"),
    ] {
        let (stage, api, password) = node(usual());
        // What follows the first slash does not count.
        assert_eq!(stage.ask("", &format!("{host}/public.ecr.aws/x")).auth(), [format!("{host} AWS:{password}")]);
        assert_eq!(signed_for(&api.seen()[0]), format!("{region}/ecr"), "{host}");
    }
}

#[test]
fn whatever_only_looks_like_a_registry_of_amazons_gets_nothing() {
    let (stage, api, _) = node(usual());
    for host in [
        "x.dkr.ecr.us-east-1.amazonaws.com.evil.io",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com.evil.io",
        "123456789012.dkr.ecr.us-east-1.evilamazonaws.com",
        "123456789012.dkr.ecr.us-east-1.evil.amazonaws.com",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com.",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com:443",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com:8443",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com@evil.io",
        "x@123456789012.dkr.ecr.us-east-1.amazonaws.com",
        "123456789012.DKR.ECR.us-east-1.amazonaws.com",
        "123456789012.dkr.ecr.US-EAST-1.amazonaws.com",
        "123456789012.dkr.ecr.us-east-1.AmazonAWS.com",
        "123456789012.dkr.ecr.us-east-1.amazonaws.ru",
        "123456789012.dkr.ecr.us_east_1.amazonaws.com",
        "123456789012.dkr.ecr.-us-east-1.amazonaws.com",
        "123456789012.dkr.ecr..amazonaws.com",
        "123456789012.dkr.ecr.amazonaws.com",
        "123456789012.dkr.ecrfips.us-east-1.amazonaws.com",
        "123456789012.dkr_ecr.us-east-1.amazonaws.com",
        "1234567890123.dkr.ecr.us-east-1.amazonaws.com",
        "12345678901a.dkr.ecr.us-east-1.amazonaws.com",
        "٣23456789012.dkr.ecr.us-east-1.amazonaws.com",
        "a.123456789012.dkr.ecr.us-east-1.amazonaws.com",
        "https:",
        "[::1]",
        "[fd00:ec2::254]:5000",
        "169.254.169.254",
        "localhost",
        "docker.io",
        "public.ecr.aws.evil.io",
        "evilpublic.ecr.aws",
        "PUBLIC.ecr.aws",
        "public.ecr.aws:443",
        "xn--pblic-kva.ecr.aws",
    ] {
        let run = stage.ask("", &format!("{host}/team/app"));
        assert_eq!((run.auth(), run.remembered()), (vec![], "0s".to_owned()), "{host}");
        assert_eq!(run.answer()["cacheKeyType"], "Registry");
    }
    assert!(api.seen().is_empty());
}

#[test]
fn a_mirror_gets_a_password_only_if_it_is_named() {
    let (stage, api, password) = node(usual());
    let line = format!("--registry-mirror cache.example:5000={PRIVATE} --registry-mirror m.example=docker.io");
    assert_eq!(stage.ask(&line, "cache.example:5000/x").auth(), [format!("cache.example:5000 AWS:{password}")]);
    assert_eq!(signed_for(&api.seen()[0]), "eu-west-3/ecr");
    for other in ["cache.example/x", "xcache.example:5000/x", "m.example/x"] {
        assert_eq!(stage.ask(&line, other).auth(), [""; 0], "{other}");
    }
    let run = stage.ask("--registry-mirror nonsense", PRIVATE);
    assert!(run.stdout.is_empty() && run.stderr.contains("SOURCE=REGISTRY"), "{run:?}");
}

#[test]
fn it_answers_in_the_version_that_was_asked_for_whatever_words_the_configuration_has() {
    let (mut stage, _api, _) = node(usual());
    for version in [ApiVersion::V1, ApiVersion::V1beta1, ApiVersion::V1alpha1] {
        stage.version = version;
        assert_eq!(stage.ask("get-credentials", PRIVATE).answer()["apiVersion"], version.as_str());
    }
}

#[test]
fn an_answer_is_remembered_by_its_end_and_not_at_all_without_one() {
    for (ends, expected) in [
        (usual(), "6h0m0s"),
        (json!(1_794_770_279), "5s"),
        // The time of the test, one long gone (moto's), one that never comes, none.
        (json!(1_794_770_269), "0s"),
        (json!(1_420_070_400.0), "0s"),
        (json!(1e18), "0s"),
        (json!(9_000_000_000_i64), "12h0m0s"),
        (Value::Null, "0s"),
    ] {
        let (stage, _api, password) = node(ends.clone());
        let run = stage.ask("", PRIVATE);
        assert_eq!((run.auth(), &*run.remembered()), (vec![format!("{PRIVATE} AWS:{password}")], expected), "{ends}");
    }
}
