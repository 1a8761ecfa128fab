//! Compiles the .proto files with protox, so that nobody needs protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = protox::compile(["collective.proto", "control.proto", "coordinate.proto", "params.proto"], ["proto"])?;
    println!("cargo:rerun-if-changed=proto");
    tonic_prost_build::configure().compile_fds(files)?;
    Ok(())
}
