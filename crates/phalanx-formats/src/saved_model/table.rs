//! Strings, their hashes, and tables from one thing to another.

use super::output::NodeOutput;
use super::{Element, GraphBuilder, Number, Output, Text, attr};
use phalanx_base::{Code, Error};
use std::marker::PhantomData;

/// A table of a graph, from keys to values. It is filled when the model is loaded.
pub struct Table<K, V> {
    handle: NodeOutput,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Table<K, V> {}

impl<K: Element, V: Element> std::fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table<{}, {}>({})", K::DTYPE, V::DTYPE, self.handle.node)
    }
}

impl GraphBuilder {
    /// The hash of each string as a number below `buckets`, as `categorical_column_with_hash_bucket` has it:
    /// [`fingerprint64`](crate::fingerprint::fingerprint64) modulo `buckets`.
    pub fn hash_bucket(&mut self, x: Output<Text>, buckets: i64) -> Output<i64> {
        self.make("StringToHashBucketFast").input(x).attr("num_buckets", attr::int(buckets)).add()
    }

    /// The hash of each string with a key, SipHash-2-4, as a number below `buckets`: Keras' salted `Hashing`.
    pub fn keyed_hash_bucket(&mut self, x: Output<Text>, buckets: i64, key: [u64; 2]) -> Output<i64> {
        let hashed = self.make("StringToHashBucketStrong").input(x).attr("num_buckets", attr::int(buckets));
        hashed.attr("key", attr::ints(key.map(u64::cast_signed))).add()
    }

    /// Numbers as decimal text.
    pub fn as_string<T: Number>(&mut self, x: Output<T>) -> Output<Text> {
        self.make("AsString").input(x).dtype::<T>("T").add()
    }

    /// The place of each value in a sorted vector: of the first element that is not below it, or the length.
    pub fn lower_bound(&mut self, sorted: Output<i64>, values: Output<i64>) -> Output<i64> {
        // The op searches in rows.
        let (sorted, values) = (self.expand_dims(sorted, 0), self.expand_dims(values, 0));
        let found = self.make("LowerBound").input(sorted).input(values).dtype::<i64>("T").dtype::<i64>("out_type");
        let found = found.add::<i64>();
        self.squeeze(found, &[0])
    }

    /// A table of these keys and values, both vectors of one length.
    ///
    /// ```
    /// # let mut graph = phalanx_formats::saved_model::GraphBuilder::new();
    /// # let words = graph.placeholder("words", &[None]);
    /// let keys = graph.texts(&[2], &["red", "green"]);
    /// let values = graph.constant(&[2], &[0_i64, 1]);
    /// let colours = graph.table(keys, values);
    /// let missing = graph.scalar(-1_i64);
    /// let ids = graph.lookup(colours, words, missing);
    /// # let _ = ids;
    /// ```
    pub fn table<K: Element, V: Element>(&mut self, keys: Output<K>, values: Output<V>) -> Table<K, V> {
        let table = self.hash_table();
        let fill = self.make("LookupTableImportV2").place(table.handle).input(keys).input(values);
        let fill = fill.dtype::<K>("Tin").dtype::<V>("Tout").add_node();
        self.initializers.push(fill);
        table
    }

    /// A table from the lines of a text file to their numbers, from 0 on: a vocabulary.
    pub fn vocabulary_table(&mut self, file: Output<Text>) -> Table<Text, i64> {
        let table = self.hash_table();
        let fill = self.make("InitializeTableFromTextFileV2").place(table.handle).input(file);
        // -2 is the whole line, -1 its number.
        let fill = fill.attr("key_index", attr::int(-2)).attr("value_index", attr::int(-1)).add_node();
        self.initializers.push(fill);
        table
    }

    fn hash_table<K: Element, V: Element>(&mut self) -> Table<K, V> {
        // Named after its node, so that two tables of a graph are two.
        let node = self.make("HashTableV2").dtype::<K>("key_dtype").dtype::<V>("value_dtype");
        let node = node.attr("use_node_name_sharing", attr::flag(true)).add_node();
        Table { handle: NodeOutput { node, output: 0 }, types: PhantomData }
    }

    /// What a table has for each key, or `missing`.
    pub fn lookup<K: Element, V: Element>(
        &mut self,
        table: Table<K, V>,
        keys: Output<K>,
        missing: Output<V>,
    ) -> Output<V> {
        let found = self.make("LookupTableFindV2").place(table.handle).input(keys).input(missing);
        found.dtype::<K>("Tin").dtype::<V>("Tout").add()
    }

    /// What a table has for each key; a key that is not in it gets a number behind the table's, from `start` on, by its
    /// hash: the out-of-vocabulary buckets of `categorical_column_with_vocabulary_list`.
    pub fn lookup_or_hash(
        &mut self,
        table: Table<Text, i64>,
        keys: Output<Text>,
        start: i64,
        buckets: i64,
    ) -> Output<i64> {
        let missing = self.scalar(-1);
        let found = self.lookup(table, keys, missing);
        let hashed = self.hash_bucket(keys, buckets);
        let start = self.scalar(start);
        let hashed = self.add(hashed, start);
        let known = self.greater(found, missing);
        self.select(known, found, hashed)
    }

    /// The path of a file that lies beside the model, in its folder `assets`; the file itself goes to
    /// [`SavedModelWriter::asset`](super::SavedModelWriter::asset).
    pub fn asset(&mut self, file: &str) -> Output<Text> {
        if file.is_empty() || file == "." || file == ".." || file.contains(['/', '\\', '\0']) {
            let error = Error::new(Code::BadSetting, format!("{file:?} is not a name for an asset"));
            self.fault(error.help("give the name of a file, without folders"));
        }
        // The loader feeds the true path to this constant.
        let path = self.text(file);
        match self.assets.get(file) {
            Some(&known) => Output::new(known.node, known.output),
            None => {
                self.assets.insert(file.to_owned(), path.at);
                path
            }
        }
    }
}
