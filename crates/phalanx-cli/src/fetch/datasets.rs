//! Public data sets: their files, the published checksums, and mirrors.

/// A data set that can be fetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublicDataset {
    pub(super) name: &'static str,
    pub(super) files: &'static [PublicFile],
    /// Folders that have all of its files, the preferred one first.
    pub(super) mirrors: &'static [&'static str],
    /// A command to try next; `DIR` stands for the directory.
    pub(super) next: &'static str,
}

/// One file of a data set.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublicFile {
    pub(super) name: &'static str,
    pub(super) bytes: u64,
    pub(super) sha256: &'static str,
}

const fn file(name: &'static str, bytes: u64, sha256: &'static str) -> PublicFile {
    PublicFile { name, bytes, sha256 }
}

pub(super) const DATASETS: [PublicDataset; 3] = [
    PublicDataset {
        name: "mnist",
        files: &[
            file(
                "train-images-idx3-ubyte.gz",
                9_912_422,
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            ),
            file(
                "train-labels-idx1-ubyte.gz",
                28_881,
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            ),
            file(
                "t10k-images-idx3-ubyte.gz",
                1_648_877,
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            ),
            file(
                "t10k-labels-idx1-ubyte.gz",
                4_542,
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ],
        mirrors: &[
            "https://storage.googleapis.com/cvdf-datasets/mnist",
            "https://ossci-datasets.s3.amazonaws.com/mnist",
        ],
        next: "phalanx head DIR/train-labels-idx1-ubyte.gz",
    },
    PublicDataset {
        name: "fashion-mnist",
        files: &[
            file(
                "train-images-idx3-ubyte.gz",
                26_421_880,
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            ),
            file(
                "train-labels-idx1-ubyte.gz",
                29_515,
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            ),
            file(
                "t10k-images-idx3-ubyte.gz",
                4_422_102,
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            ),
            file(
                "t10k-labels-idx1-ubyte.gz",
                5_148,
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
        ],
        mirrors: &[
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        ],
        next: "phalanx head DIR/train-labels-idx1-ubyte.gz",
    },
    PublicDataset {
        name: "census",
        files: &[
            file("adult.data", 3_974_305, "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
            file("adult.test", 2_003_153, "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
        ],
        mirrors: &["https://archive.ics.uci.edu/ml/machine-learning-databases/adult"],
        next: "phalanx head --no-header DIR/adult.data",
    },
];
