//! Compiles collective.proto with protox, which needs no protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    prost_build::compile_fds(protox::compile(["collective.proto"], ["proto"])?)?;
    Ok(())
}
