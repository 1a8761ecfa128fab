//! Devices by name.

use burn::tensor::Device;
use phalanx_base::{Code, Error, Result};

/// Returns the default device: this machine's CPU, with automatic differentiation.
#[must_use]
pub fn default_device() -> Device {
    Device::flex().autodiff()
}

/// Returns the device called `name`: `cpu`, `vulkan:0`, `cuda:0`. TensorFlow's names such as `/cpu:0` and `GPU:1` are
/// accepted; `gpu` means the GPU backend that was built in.
///
/// ```
/// assert!(phalanx_nn::device("cpu").is_ok());
/// let error = phalanx_nn::device("tpu:0").unwrap_err();
/// assert_eq!(error.what(), "there is no device \"tpu:0\"");
/// ```
///
/// # Errors
/// If there is no such kind of device, it was not built in, or this machine has no device of that index.
pub fn device(name: &str) -> Result<Device> {
    let lower = name.trim_start_matches('/').trim_start_matches("device:").to_ascii_lowercase();
    let (kind, index) = lower.split_once(':').unwrap_or((&lower, "0"));
    let no_such = || Error::new(Code::BadSetting, format!("there is no device {name:?}"));
    let index: usize = index
        .parse()
        .map_err(|_| no_such().because("a device index, counted from 0, follows the colon").help("try cpu:0"))?;
    let device = match kind {
        // All CPU devices share one memory.
        "cpu" => return Ok(default_device()),
        "gpu" => any(index, name)?,
        "vulkan" => vulkan(index, name)?,
        "cuda" => cuda(index, name)?,
        _ => return Err(no_such().help("choose cpu, vulkan:0 or cuda:0")),
    };
    Ok(device.autodiff())
}

fn any(index: usize, name: &str) -> Result<Device> {
    if cfg!(feature = "cuda") { cuda(index, name) } else { vulkan(index, name) }
}

#[cfg(feature = "vulkan")]
fn vulkan(index: usize, name: &str) -> Result<Device> {
    present(Device::enumerate(burn::tensor::DeviceType::Vulkan), index, name)
}

#[cfg(not(feature = "vulkan"))]
fn vulkan(_: usize, name: &str) -> Result<Device> {
    Err(not_built_in("vulkan", name))
}

#[cfg(feature = "cuda")]
fn cuda(index: usize, name: &str) -> Result<Device> {
    present(Device::enumerate(burn::tensor::DeviceType::Cuda), index, name)
}

#[cfg(not(feature = "cuda"))]
fn cuda(_: usize, name: &str) -> Result<Device> {
    Err(not_built_in("cuda", name))
}

#[cfg(any(feature = "vulkan", feature = "cuda"))]
fn present(found: burn::tensor::Devices, index: usize, name: &str) -> Result<Device> {
    let count = found.len();
    found.into_iter().nth(index).ok_or_else(|| {
        Error::new(Code::BadSetting, format!("device {name:?} is not present"))
            .because(format!("this machine has {count} of its kind"))
            .help("install the driver (for Vulkan also its loader and an ICD file), or use --device cpu")
    })
}

#[cfg(not(all(feature = "vulkan", feature = "cuda")))]
fn not_built_in(feature: &str, name: &str) -> Error {
    Error::new(Code::BadSetting, format!("device {name:?} cannot be used by this program"))
        .because(format!("it was built without the feature `{feature}`"))
        .help(format!("build it with `--features {feature}`, or use --device cpu"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tensorflow_are_understood_and_wrong_ones_explained() {
        for name in ["cpu", "cpu:3", "/cpu:0", "/device:CPU:0", "CPU:1"] {
            assert!(device(name).is_ok(), "{name}");
        }
        assert!(device("cpu:x").unwrap_err().next().is_some());
        if cfg!(not(feature = "vulkan")) {
            let error = device("vulkan:0").unwrap_err();
            assert!(error.next().unwrap().contains("--features vulkan"), "{}", error.report());
        }
    }
}
