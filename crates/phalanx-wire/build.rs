//! Compiles the .proto files with protox, which needs no protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["common.proto", "control.proto"];
    println!("cargo:rerun-if-changed=proto");
    tonic_prost_build::configure().compile_fds(protox::compile(files, ["proto"])?)?;
    Ok(())
}
