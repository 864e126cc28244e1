//! How a server starts, and how it says why it does not.

use std::net::TcpListener;

use reprise::config::Config;
use reprise::serve;
use reprise_proto::v1::reprise_service_client::RepriseServiceClient;

use tonic::transport::Channel;

use super::support::*;

fn config(directory: &tempfile::TempDir) -> Config {
    Config {
        listen: ([127, 0, 0, 1], 0).into(),
        data_dir: directory.path().join("new").join("data"),
        ..Config::default()
    }
}

#[tokio::test]
async fn records_outlive_the_server_in_their_directory() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(&directory);
    for outcome in ["Acquired", "Processing"] {
        let running = serve::start(&config).await.unwrap();
        let url = format!("http://{}", running.addr());
        let channel = Channel::from_shared(url).unwrap().connect().await.unwrap();
        let mut client = RepriseServiceClient::new(channel);
        let answer = client.reserve(reserve("k")).await.unwrap().into_inner();
        let shown = format!("{:?}", answer.outcome.unwrap());
        assert!(shown.starts_with(outcome), "{shown}");
        running.shutdown();
        running.stopped().await.unwrap();
    }
    assert!(config.data_dir.join("reprise.sqlite").exists());
}

#[tokio::test]
async fn a_server_that_is_told_to_end_ends_well() {
    let directory = tempfile::tempdir().unwrap();
    serve::run(config(&directory), async {}).await.unwrap();
}

#[tokio::test]
async fn a_taken_port_is_said_with_the_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let config = Config {
        listen: taken.local_addr().unwrap(),
        ..config(&directory)
    };
    let error = format!("{:#}", serve::start(&config).await.unwrap_err());
    assert!(error.contains("--listen"), "{error}");
    assert!(error.contains(&config.listen.to_string()), "{error}");
    assert!(!config.data_dir.exists(), "nothing was touched");
}

#[tokio::test]
async fn a_second_server_on_the_same_data_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let config = config(&directory);
    let first = serve::start(&config).await.unwrap();
    let error = format!("{:#}", serve::start(&config).await.unwrap_err());
    assert!(error.contains("reprise.sqlite"), "{error}");
    first.shutdown();
    first.stopped().await.unwrap();
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let config = Config {
        data_dir: file.join("data"),
        ..config(&directory)
    };
    let error = format!("{:#}", serve::start(&config).await.unwrap_err());
    assert!(error.contains("--data-dir"), "{error}");
}

#[tokio::test]
async fn settings_out_of_range_are_refused_before_anything_happens() {
    let directory = tempfile::tempdir().unwrap();
    let config = Config {
        writers: 0,
        ..config(&directory)
    };
    let error = serve::start(&config).await.unwrap_err().to_string();
    assert!(
        error.contains("writers") && error.contains("1 to 64"),
        "{error}"
    );
    assert!(!config.data_dir.exists());
}
