//! Below the methods: paths, protocols, deadlines, health, reflection.

use std::net::SocketAddr;
use std::time::Duration;

use prost::Message;
use reprise_proto::v1::reserve_response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::codegen::tokio_stream;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::support::*;

/// Sends bytes over a connection of their own and reads to its end.
async fn exchange(addr: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// A call over HTTP/1.1, which nothing between here and the server interprets.
async fn call(addr: SocketAddr, method: &str, extra: &str, message: &[u8]) -> String {
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend(message);
    framed(addr, method, extra, &frame).await
}

async fn framed(addr: SocketAddr, method: &str, extra: &str, frame: &[u8]) -> String {
    let mut bytes = format!(
        "POST {method} HTTP/1.1\r\nhost: here\r\ncontent-type: application/grpc\r\n\
         te: trailers\r\nconnection: close\r\ncontent-length: {}\r\n{extra}\r\n",
        frame.len()
    )
    .into_bytes();
    bytes.extend(frame);
    exchange(addr, &bytes).await
}

const LOOKUP: &str = "/reprise.v1.RepriseService/Lookup";

#[tokio::test]
async fn people_who_point_a_browser_here_learn_what_this_is() {
    let server = server().await;
    let get =
        |path: &str| format!("GET {path} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n");
    let answer = exchange(server.running.addr(), get("/").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        answer.contains("Reprise") && answer.contains("gRPC"),
        "{answer}"
    );
    let answer = exchange(server.running.addr(), get("/nothing").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
}

#[tokio::test]
async fn no_web_page_reaches_a_method() {
    let server = server().await;
    for method in [
        LOOKUP,
        "/reprise.v1.ReconciliationService/Resolve",
        "/reprise.v1.PolicyService/PutPolicy",
        "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ] {
        for (headers, code) in [
            ("", "415"),
            ("content-type: text/plain\r\n", "415"),
            ("content-type: application/grpc-web+proto\r\n", "415"),
            (
                "content-type: application/grpc\r\norigin: http://elsewhere\r\n",
                "403",
            ),
            ("content-type: application/grpc\r\norigin: null\r\n", "403"),
        ] {
            let request = format!(
                "POST {method} HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\
                 content-length: 5\r\n{headers}\r\n\0\0\0\0\0"
            );
            let answer = exchange(server.running.addr(), request.as_bytes()).await;
            let expected = format!("HTTP/1.1 {code}");
            assert!(
                answer.starts_with(&expected),
                "{method} {headers}: {answer}"
            );
        }
    }
}

#[tokio::test]
async fn deadlines_that_run_out_leave_others_on_the_connection_alone() {
    let server = server().await;
    server.acquire(reserve("held")).await;
    let waiters: Vec<_> = (0..200)
        .map(|_| {
            let mut client = server.reprise();
            let request = waiting("held", Duration::from_secs(1));
            tokio::spawn(async move { client.reserve(request).await })
        })
        .collect();
    let hasty: Vec<_> = (0..400)
        .map(|at| {
            let mut client = server.reprise();
            let mut request = tonic::Request::new(waiting("held", Duration::from_secs(1)));
            request.set_timeout(Duration::from_millis(1 + at % 5));
            tokio::spawn(async move { client.reserve(request).await })
        })
        .collect();
    for call in hasty {
        // Cut off by its deadline, here or there; or it was faster.
        let _answer = call.await.unwrap();
    }
    for waiter in waiters {
        let answer = waiter.await.unwrap().unwrap().into_inner();
        let outcome = answer.outcome.unwrap();
        assert!(
            matches!(outcome, reserve_response::Outcome::Processing(_)),
            "{outcome:?}"
        );
    }
}

#[tokio::test]
async fn a_compressed_message_is_refused_in_our_form() {
    let server = server().await;
    let addr = server.running.addr();
    let answer = framed(addr, LOOKUP, "grpc-encoding: gzip\r\n", b"\x01\0\0\0\0").await;
    assert!(answer.contains("grpc-status: 12\r\n"), "{answer}");
    assert!(answer.contains("grpc-status-details-bin"), "{answer}");
}

#[tokio::test]
async fn a_deadline_that_passed_is_said_so() {
    let server = server().await;
    let message = lookup("k").encode_to_vec();
    let addr = server.running.addr();
    let answer = call(addr, LOOKUP, "grpc-timeout: 1n\r\n", &message).await;
    assert!(answer.contains("grpc-status: 4\r\n"), "{answer}");
    let answer = call(addr, LOOKUP, "grpc-timeout: soon\r\n", &message).await;
    assert!(answer.contains("grpc-status: 3\r\n"), "{answer}");
}

#[tokio::test]
async fn a_deadline_ends_a_call_that_is_under_way() {
    let server = server().await;
    let held_up = server.hold_up();
    let message = reserve("k").encode_to_vec();
    let reserve = "/reprise.v1.RepriseService/Reserve";
    let answer = call(
        server.running.addr(),
        reserve,
        "grpc-timeout: 50m\r\n",
        &message,
    )
    .await;
    assert!(answer.contains("grpc-status: 4\r\n"), "{answer}");
    drop(held_up);
}

#[tokio::test]
async fn a_call_without_a_deadline_gets_one() {
    let setup = Setup::with(|config| config.deadline_default = Duration::from_millis(100));
    let server = setup.start().await;
    let held_up = server.hold_up();
    let message = reserve("k").encode_to_vec();
    let reserve = "/reprise.v1.RepriseService/Reserve";
    let answer = call(server.running.addr(), reserve, "", &message).await;
    assert!(answer.contains("grpc-status: 4\r\n"), "{answer}");
    drop(held_up);
}

#[tokio::test]
async fn messages_that_cannot_be_read_are_a_fault_of_the_caller() {
    let server = server().await;
    let addr = server.running.addr();
    for frame in [
        &b"\x00\x00\x00\x00\x02\xff\xff"[..],
        b"",
        b"\x00\x00\x00\x00\x09short",
    ] {
        let answer = framed(addr, LOOKUP, "", frame).await;
        assert!(answer.contains("grpc-status: 3\r\n"), "{frame:?}: {answer}");
    }
    // A message that says it is larger than it may be.
    let answer = framed(addr, LOOKUP, "", b"\x00\xff\xff\xff\xff").await;
    assert!(answer.contains("grpc-status: 8\r\n"), "{answer}");
}

#[tokio::test]
async fn unknown_methods_are_unimplemented() {
    let server = server().await;
    for method in [
        "/reprise.v1.RepriseService/Nothing",
        "/reprise.v2.Nothing/Nothing",
    ] {
        let answer = call(server.running.addr(), method, "", b"").await;
        assert!(answer.contains("grpc-status: 12\r\n"), "{method}: {answer}");
        assert!(
            answer.contains("grpc-status-details-bin"),
            "{method}: {answer}"
        );
    }
}

#[tokio::test]
async fn every_service_says_that_it_serves() {
    let server = server().await;
    let mut health = HealthClient::new(server.channel.clone());
    for service in [
        "",
        "reprise.v1.RepriseService",
        "reprise.v1.ReconciliationService",
        "reprise.v1.PolicyService",
        "reprise.v1.RecordsService",
        "reprise.v1.StatusService",
    ] {
        let request = HealthCheckRequest {
            service: service.into(),
        };
        let answer = health.check(request).await.unwrap();
        assert_eq!(
            answer.get_ref().status(),
            ServingStatus::Serving,
            "{service}"
        );
    }
}

#[tokio::test]
async fn reflection_lists_the_services_in_both_versions() {
    let server = server().await;
    {
        use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
        use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
        use tonic_reflection::pb::v1::{ServerReflectionRequest, server_reflection_response};
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let mut client = ServerReflectionClient::new(server.channel.clone());
        let answers = client
            .server_reflection_info(tokio_stream::once(request))
            .await;
        let answer = answers
            .unwrap()
            .into_inner()
            .message()
            .await
            .unwrap()
            .unwrap();
        match answer.message_response.unwrap() {
            server_reflection_response::MessageResponse::ListServicesResponse(list) => {
                let names: Vec<_> = list.service.iter().map(|it| it.name.as_str()).collect();
                for service in [
                    "RepriseService",
                    "ReconciliationService",
                    "PolicyService",
                    "RecordsService",
                    "StatusService",
                ] {
                    let name = format!("reprise.v1.{service}");
                    assert!(names.contains(&name.as_str()), "{names:?}");
                }
            }
            other => panic!("{other:?}"),
        }
    }
    {
        use tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient;
        use tonic_reflection::pb::v1alpha::server_reflection_request::MessageRequest;
        use tonic_reflection::pb::v1alpha::{ServerReflectionRequest, server_reflection_response};
        let symbol = "reprise.v1.PolicyService".to_owned();
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::FileContainingSymbol(symbol)),
        };
        let mut client = ServerReflectionClient::new(server.channel.clone());
        let answers = client
            .server_reflection_info(tokio_stream::once(request))
            .await;
        let answer = answers
            .unwrap()
            .into_inner()
            .message()
            .await
            .unwrap()
            .unwrap();
        match answer.message_response.unwrap() {
            server_reflection_response::MessageResponse::FileDescriptorResponse(files) => {
                assert_eq!(files.file_descriptor_proto.len(), 1);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn connections_over_the_bound_are_closed() {
    let setup = Setup::with(|config| config.connections_max = 1);
    let server = setup.start().await;
    let get = b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n";
    let mut stream = TcpStream::connect(server.running.addr()).await.unwrap();
    // It is closed before or while it is written to.
    let _sent = stream.write_all(get).await;
    let mut answer = Vec::new();
    let read = stream.read_to_end(&mut answer).await;
    assert!(read.is_err() || answer.is_empty(), "{answer:?}");
    server.acquire(reserve("k")).await;
}

#[tokio::test]
async fn an_old_connection_moves_on_without_a_failed_call() {
    let setup = Setup::with(|config| config.connection_age = Duration::from_secs(1));
    let server = setup.start().await;
    server.acquire(reserve("k")).await;
    let url = format!("http://{}", server.running.addr());
    let client = reprise_client::Client::builder(url).build().unwrap();
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_millis(2500) {
        client.lookup(lookup("k")).await.unwrap();
    }
}
