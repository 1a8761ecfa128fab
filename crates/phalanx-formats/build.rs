//! Compiles every .proto file of `proto/` with protox, so that nobody needs protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut names = Vec::new();
    for entry in std::fs::read_dir("proto")? {
        let name = entry?.file_name();
        if name.to_string_lossy().ends_with(".proto") {
            names.push(name);
        }
    }
    // The folder's order is the file system's; the build's must not be.
    names.sort();
    let files = protox::compile(names, ["proto"])?;
    prost_build::Config::new().btree_map(["."]).compile_fds(files)?;
    Ok(())
}
