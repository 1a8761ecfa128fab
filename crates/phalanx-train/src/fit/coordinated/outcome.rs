//! Logs as every task of a job gets them.

use crate::coordinator::{Outcome, proto};
use crate::fit::{History, Logs};
use phalanx_base::{Code, Context, Error, Result};
use prost::Message;

impl Outcome for History {
    fn to_bytes(&self) -> Vec<u8> {
        let epoch = |(epoch, logs): (&usize, &Logs)| {
            let (names, values) = logs.iter().map(|(name, number)| (name.to_owned(), number)).unzip();
            proto::Epoch { epoch: *epoch as u64, names, values }
        };
        proto::LogsOutcome { epochs: self.epochs().iter().zip(self.logs()).map(epoch).collect() }.encode_to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let read = proto::LogsOutcome::decode(bytes).context(Code::BadMessage, "the chief's logs are malformed")?;
        let mut history = Self::default();
        for epoch in read.epochs {
            let number = usize::try_from(epoch.epoch).unwrap_or(usize::MAX);
            history.push(number, epoch.names.into_iter().zip(epoch.values).collect());
        }
        Ok(history)
    }
}

impl Outcome for Logs {
    fn to_bytes(&self) -> Vec<u8> {
        let mut history = History::default();
        history.push(0, self.clone());
        history.to_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let missing = || Error::new(Code::BadMessage, "the chief's logs are empty");
        History::from_bytes(bytes)?.logs().first().cloned().ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_come_back_as_they_were_sent() {
        let mut history = History::default();
        history.push(3, [("loss", 0.25), ("accuracy", f64::INFINITY)].into_iter().collect());
        history.push(4, Logs::default());
        assert_eq!(History::from_bytes(&history.to_bytes()).unwrap(), history);
        let logs = history.logs()[0].clone();
        assert_eq!(Logs::from_bytes(&logs.to_bytes()).unwrap(), logs);
        assert!(History::from_bytes(&[0xff; 9]).is_err() && Logs::from_bytes(&[]).is_err());
    }
}
