//! Compiles the .proto file with protox, so that nobody needs protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shared = "../phalanx-wire/proto";
    let files = protox::compile(["params.proto", "log.proto"], ["proto", shared])?;
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rerun-if-changed={shared}/common.proto");
    prost_build::Config::new().extern_path(".phalanx.common", "::phalanx_wire::proto::common").compile_fds(files)?;
    Ok(())
}
