//! Every setting.
#[derive(clap::Args, Debug)]
pub struct ServeArgs {}
impl ServeArgs {
    pub fn log(&self) -> (LogFormat, String) {
        (LogFormat::Human, "info".into())
    }
}
#[derive(Clone, Copy, Debug)]
pub enum LogFormat {
    Human,
    Json,
}
