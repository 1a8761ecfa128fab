//! Texts taken apart, joined and read as numbers.

use super::{GraphBuilder, Output, Sparse, Text, attr};

impl GraphBuilder {
    /// The parts of every text between a delimiter, without empty ones. Parts stay in the row of their text.
    pub fn split_texts(&mut self, texts: Sparse<Text>, delimiter: &str) -> Sparse<Text> {
        let delimiter = self.text(delimiter);
        let node = self.make("StringSplitV2").input(texts.values).input(delimiter);
        let node = node.attr("maxsplit", attr::int(-1)).add_node();
        let (places, parts, extents) =
            (Output::<i64>::new(node, 0), Output::<Text>::new(node, 1), Output::<i64>::new(node, 2));
        let empty = self.text("");
        let there = self.not_equal(parts, empty);
        let there = self.places(there);
        let there = self.reshape(there, &[-1]);
        let (places, values) = (self.gather(places, there), self.gather(parts, there));
        // Part p of the text at (row, column) goes to (row, column * most parts of a text + p).
        let (first, second) = (self.constant(&[1], &[0_i64]), self.constant(&[1], &[1_i64]));
        let (text, part) = (self.gather_along(places, first, 1), self.gather_along(places, second, 1));
        let text = self.reshape(text, &[-1]);
        let of_text = self.gather(texts.indices, text);
        let (row, column) = (self.gather_along(of_text, first, 1), self.gather_along(of_text, second, 1));
        let (rows, columns, most) = (
            self.gather(texts.dense_shape, first),
            self.gather(texts.dense_shape, second),
            self.gather(extents, second),
        );
        let start = self.mul(column, most);
        let column = self.add(start, part);
        let width = self.mul(columns, most);
        let (indices, dense_shape) = (self.concat(&[row, column], 1), self.concat(&[rows, width], 0));
        Sparse { indices, values, dense_shape }
    }

    /// Texts one after another, element by element.
    pub fn join_texts(&mut self, parts: &[Output<Text>]) -> Output<Text> {
        self.make("StringJoin").inputs(parts).attr("N", attr::int(parts.len() as i64)).add()
    }

    /// The bytes of every text from `start` on.
    pub fn substring(&mut self, texts: Output<Text>, start: i32, length: i32) -> Output<Text> {
        let (start, length) = (self.scalar(start), self.scalar(length));
        self.make("Substr").input(texts).input(start).input(length).dtype::<i32>("T").add()
    }

    /// Decimal texts as numbers.
    pub fn parse_integer(&mut self, texts: Output<Text>) -> Output<i64> {
        self.make("StringToNumber").input(texts).dtype::<i64>("out_type").add()
    }
}
