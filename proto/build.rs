//! Compiles the protos without protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = [
        "record",
        "errors",
        "reprise",
        "reconciliation",
        "records",
        "policy",
        "status",
    ]
    .map(|name| format!("reprise/v1/{name}.proto"));
    let descriptors = protox::compile(files, ["."])?;

    // Reflection serves the descriptors without comments and positions.
    let mut served = descriptors.clone();
    for file in &mut served.file {
        file.source_code_info = None;
    }
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(
        out.join("descriptors.bin"),
        protox::prost::Message::encode_to_vec(&served),
    )?;

    tonic_prost_build::configure()
        .bytes(".")
        .codec_path("crate::codec::Messages")
        .compile_fds(descriptors)?;
    println!("cargo:rerun-if-changed=reprise");
    Ok(())
}
