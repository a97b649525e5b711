// The smallest client in Rust: rustc alone, no crates; see c_client.c for what it is asked.
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr::{null, null_mut};

const BATCH_ROWS: u32 = 64;
const BATCHES_MAX: u32 = 2000;
const TIMEOUT_NS: i64 = 10_000_000_000;

const U8: u16 = 2;
const U32: u16 = 6;
const I64: u16 = 9;
const F32: u16 = 12;

/// Handles of the library: never looked into.
type Handle = *mut c_void;

#[repr(C)]
struct Cell {
    column: u32,
    dtype: u16,
    rank: u16,
    element_bytes: u32,
    reserved: u32,
    data: *const c_void,
    shape: *const i64,
    strides: *const i64,
    step_stride: i64,
}

#[repr(C)]
struct SamplerOptions {
    struct_size: u32,
    mode: u32,
    batch_rows_max: u32,
    batches_max: u32,
    windows: *const c_void,
    window_count: u32,
    anchor: u32,
    seed: u64,
    prefetch: u32,
    rows_min: u32,
    beta: f64,
    normalise: u32,
    reserved: u32,
}

#[repr(C)]
struct Tensor {
    data: *const c_void,
    name: *const c_char,
    shape: *const i64,
    strides: *const i64,
    rank: u32,
    dtype: u32,
    element_bytes: u32,
    device: u32,
    size_bytes: u64,
    mask: *const u8,
    lengths: *const u32,
    length: u32,
    reserved: u32,
}

extern "C" {
    fn gear_status_string(status: c_int) -> *const c_char;
    fn gear_last_error() -> *const c_char;
    fn gear_connect(endpoint: *const c_char, options: *const c_void, client: *mut Handle) -> c_int;
    fn gear_close(client: Handle) -> c_int;
    fn gear_table_attach(client: Handle, handle: *const c_char, table: *mut Handle) -> c_int;
    fn gear_writer_open(table: Handle, options: *const c_void, writer: *mut Handle) -> c_int;
    fn gear_writer_append(
        writer: Handle,
        lane: u32,
        cells: *const Cell,
        cell_count: usize,
        timeout_ns: i64,
    ) -> c_int;
    fn gear_writer_flush(writer: Handle, timeout_ns: i64, waiting: *mut u64) -> c_int;
    fn gear_writer_close(writer: Handle) -> c_int;
    fn gear_sampler_open(
        table: Handle,
        options: *const SamplerOptions,
        sampler: *mut Handle,
    ) -> c_int;
    fn gear_sample(sampler: Handle, rows: u32, timeout_ns: i64, batch: *mut Handle) -> c_int;
    fn gear_sampler_close(sampler: Handle) -> c_int;
    fn gear_batch_rows(batch: Handle) -> u32;
    fn gear_batch_tensor(batch: Handle, index: u32, tensor: *mut Tensor) -> c_int;
    fn gear_batch_release(batch: Handle) -> c_int;
}

type Outcome<T> = Result<T, String>;

fn check(status: c_int) -> Outcome<()> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: both are strings of the library that live until this thread's next failure.
    let (name, text) = unsafe {
        (
            CStr::from_ptr(gear_status_string(status)),
            CStr::from_ptr(gear_last_error()),
        )
    };
    Err(format!(
        "{}: {}",
        name.to_string_lossy(),
        text.to_string_lossy()
    ))
}

struct Step {
    language: u32,
    step: i64,
    values: [f32; 4],
    image: [u8; 6],
}

impl Step {
    fn new(language: u32, step: i64) -> Step {
        let of = i64::from(language);
        let values = std::array::from_fn(|i| (1000 * of + 4 * step + i as i64) as f32 + 0.5);
        let image = std::array::from_fn(|i| (31 * of + 7 * step + i as i64) as u8);
        Step {
            language,
            step,
            values,
            image,
        }
    }
}

fn cell<T>(column: u32, dtype: u16, data: *const T, shape: &[i64]) -> Cell {
    Cell {
        column,
        dtype,
        rank: shape.len() as u16,
        element_bytes: 0,
        reserved: 0,
        data: data.cast(),
        shape: shape.as_ptr(),
        strides: null(),
        step_stride: 0,
    }
}

fn write_steps(table: Handle, language: u32, steps: i64) -> Outcome<()> {
    let mut writer = null_mut();
    // SAFETY: table is open; cells point to `step`, which outlives the call.
    unsafe {
        check(gear_writer_open(table, null(), &mut writer))?;
        for i in 0..steps {
            let step = Step::new(language, i);
            let cells = [
                cell(0, U32, &step.language, &[]),
                cell(1, I64, &step.step, &[]),
                cell(2, F32, step.values.as_ptr(), &[4]),
                cell(3, U8, step.image.as_ptr(), &[2, 3]),
            ];
            check(gear_writer_append(
                writer,
                0,
                cells.as_ptr(),
                cells.len(),
                TIMEOUT_NS,
            ))?;
        }
        check(gear_writer_flush(writer, TIMEOUT_NS, null_mut()))?;
        check(gear_writer_close(writer))
    }
}

/// The elements of a tensor, borrowed until the batch is released.
unsafe fn elements<'a, T>(batch: Handle, index: u32) -> Outcome<&'a [T]> {
    let mut tensor: Tensor = std::mem::zeroed();
    check(gear_batch_tensor(batch, index, &mut tensor))?;
    let count = tensor.size_bytes as usize / std::mem::size_of::<T>();
    Ok(std::slice::from_raw_parts(tensor.data.cast(), count))
}

/// Marks in `seen` the steps of `other`.
unsafe fn check_batch(batch: Handle, other: u32, seen: &mut [bool]) -> Outcome<()> {
    let languages: &[u32] = elements(batch, 0)?;
    let steps: &[i64] = elements(batch, 1)?;
    let values: &[f32] = elements(batch, 2)?;
    let image: &[u8] = elements(batch, 3)?;
    for row in 0..gear_batch_rows(batch) as usize {
        let wanted = Step::new(languages[row], steps[row]);
        let inside = (0..seen.len() as i64).contains(&wanted.step);
        if !inside
            || wanted.values != values[4 * row..4 * row + 4]
            || wanted.image != image[6 * row..6 * row + 6]
        {
            return Err(format!(
                "wrong cells in step {} of language {}",
                wanted.step, wanted.language
            ));
        }
        if wanted.language == other {
            seen[wanted.step as usize] = true;
        }
    }
    Ok(())
}

fn read_steps(table: Handle, other: u32, steps: i64) -> Outcome<()> {
    let options = SamplerOptions {
        struct_size: std::mem::size_of::<SamplerOptions>() as u32,
        mode: 0,
        batch_rows_max: BATCH_ROWS,
        batches_max: 0,
        windows: null(),
        window_count: 0,
        anchor: 0,
        seed: 0,
        prefetch: 0,
        rows_min: 0,
        beta: 0.0,
        normalise: 0,
        reserved: 0,
    };
    let mut seen = vec![false; steps as usize];
    let mut sampler = null_mut();
    // SAFETY: table is open; what is borrowed from a batch ends before its release.
    unsafe {
        check(gear_sampler_open(table, &options, &mut sampler))?;
        for _ in 0..BATCHES_MAX {
            let mut batch = null_mut();
            check(gear_sample(sampler, BATCH_ROWS, TIMEOUT_NS, &mut batch))?;
            check_batch(batch, other, &mut seen)?;
            check(gear_batch_release(batch))?;
            if seen.iter().all(|&one| one) {
                return check(gear_sampler_close(sampler));
            }
        }
    }
    Err(format!("steps of language {other} were never drawn"))
}

fn run(arguments: &[String]) -> Outcome<()> {
    let [mode, handle, language, steps, rest @ ..] = arguments else {
        return Err("give write|read HANDLE LANGUAGE STEPS [OTHER]".to_string());
    };
    let number = |text: &String| {
        text.parse::<i64>()
            .map_err(|failure| format!("{text}: {failure}"))
    };
    let endpoint = CString::new(format!("handle:{handle}")).unwrap();
    let handle = CString::new(handle.as_str()).unwrap();
    let (mut client, mut table) = (null_mut(), null_mut());
    // SAFETY: the strings outlive the calls; client closes the table.
    unsafe {
        check(gear_connect(endpoint.as_ptr(), null(), &mut client))?;
        check(gear_table_attach(client, handle.as_ptr(), &mut table))?;
    }
    write_steps(table, number(language)? as u32, number(steps)?)?;
    if mode == "read" {
        read_steps(table, number(&rest[0])? as u32, number(steps)?)?;
    }
    check(unsafe { gear_close(client) })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Err(text) = run(&arguments) {
        eprintln!("rust: {text}");
        std::process::exit(1);
    }
}
