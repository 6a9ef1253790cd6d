//! Statements as programs write them, and the name each gives.

use super::{Language, receiver};

#[track_caller]
fn check(language: Language, cases: &[(&str, Option<&str>)]) {
    for (text, expected) in cases {
        // `@` marks the call's line when the statement has several.
        let line = text.lines().position(|l| l.contains('@')).map_or(1, |i| i + 1);
        let plain = text.replace('@', "");
        let found = receiver(&plain, line as u32, 0, language);
        assert_eq!(found.as_deref(), *expected, "{text}");
    }
}

#[test]
fn c_statements_name_what_they_assign() {
    check(
        Language::C,
        &[
            ("float *prev = (float *)malloc(n * sizeof(float));", Some("prev")),
            ("prev = malloc(n);", Some("prev")),
            ("  s->field = calloc(n, 8);", Some("s->field")),
            ("grid[i].cells = malloc(n);", Some("grid[i].cells")),
            ("rows[i] = (double*) xmalloc (n * sizeof *rows[i]);", Some("rows[i]")),
            ("*out = malloc(n);", Some("*out")),
            ("double *rows[2] = {malloc(n), malloc(n)};", Some("rows")),
            ("char *names[] = {malloc(n)};", Some("names")),
            ("double *a = NULL, *b[2] = {malloc(n)};", Some("b")),
            ("pair pairs[2] = {{malloc(n), 3}, {0}};", Some("pairs")),
            ("double (*matrix)[1000] = malloc(n);", Some("matrix")),
            ("double *(*both[2])[3] = {malloc(n)};", Some("both")),
            ("double *rows[2] = {\n  0,\n  @malloc(n),\n};", Some("rows")),
            ("double *rows[2][2] = {\n  {malloc(n), 0},\n  {0, @malloc(n)},\n};", Some("rows")),
            ("f(); if (a) {\n  g();\n}\n{\n @malloc(n);\n}", None),
            ("else rows[k] = malloc(n);", Some("rows[k]")),
            ("m[i] = m[0] + 3, m[k] = malloc(n);", Some("m[k]")),
            ("get(*x).rows[3] = malloc(n);", Some("get(*x).rows[3]")),
            ("float **rows = malloc(n * sizeof(float *));", Some("rows")),
            ("if ((p = malloc(n)) == NULL) return -1;", Some("p")),
            ("if (!p) p = malloc(n);", Some("p")),
            ("if (a == b) { p = malloc(n); }", Some("p")),
            ("else q = realloc(q, n);", Some("q")),
            ("if (posix_memalign((void**)&prev, 64, n)) abort();", Some("prev")),
            ("err = posix_memalign((void **) &s->data, 64, n);", Some("s->data")),
            ("posix_memalign((void **)out, 64, n);", Some("out")),
            ("MPI_Alloc_mem(n, MPI_INFO_NULL, &window);", Some("window")),
            ("p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, -1, 0);", Some("p")),
            ("for (node *p = malloc(8); p; p = p->next)", Some("p")),
            ("p = big ? malloc(n) : NULL;", Some("p")),
            ("p = check(malloc(n), \"p = q; malloc(\");", Some("p")),
            ("double *a = malloc(n); double *b = malloc(n);", Some("a|b")),
            ("double *a = malloc(n), *b = malloc(n);", Some("a|b")),
            ("a = b = malloc(n);", Some("b")),
            ("double *a =\n    @malloc(n);", Some("a")),
            (
                "x = 1;\ndouble *a @= (double *)\n    malloc(n *\n  sizeof(double));\ny = malloc(3);",
                Some("a"),
            ),
            ("#pragma omp parallel\n@p = malloc(n);", Some("p")),
            ("p = malloc(n); // q = malloc(n)", Some("p")),
            ("/* q = */ p = malloc(n);", Some("p")),
            ("FILE *f = open_it(name);", Some("f")),
            ("uint64_t *p = numa_alloc_onnode(n, 0);", Some("p")),
            ("return malloc(n);", None),
            ("use(malloc(n));", None),
            ("x = compute(y);", None),
            ("free(p);", None),
            ("}", None),
            ("", None),
        ],
    );
}

#[test]
fn cpp_statements_name_what_they_assign() {
    check(
        Language::Cpp,
        &[
            ("this->data = new T[n];", Some("this->data")),
            ("auto *p = new (std::nothrow) std::complex<double>[n]{};", Some("p")),
            ("std::vector<float> prev(n);", Some("prev")),
            ("std::vector<float> prev(n, 0.0f), next{prev};", Some("prev|next")),
            (
                "static const std::vector<std::vector<double>> table(n, std::vector<double>(m));",
                Some("table"),
            ),
            ("std::vector<double> v = other;", Some("v")),
            ("auto v = std::make_unique<float[]>(n);", Some("v")),
            ("std::unique_ptr<float[]> p(new float[n]);", Some("p")),
            ("std::unique_ptr<float[]> p{new float[n]};", Some("p")),
            ("p.reset(new float[n]);", Some("p")),
            ("prev.resize(n);", Some("prev")),
            ("grid->cells.resize(n * m, 0);", Some("grid->cells")),
            ("m_[key].push_back(x);", Some("m_[key]")),
            ("list.push_back(new Node(3));", Some("list")),
            ("table[key] = new Row;", Some("table[key]")),
            ("a = b;", Some("a")),
            ("float *p = static_cast<float*>(std::aligned_alloc(64, n));", Some("p")),
            ("Grid(int n) : data(new double[n]) {}", Some("data")),
            ("Grid(int n) : data(n), other(m) {}", Some("data|other")),
            ("    : @data(n) {", Some("data")),
            ("std::vector<double> v[2] = {std::vector<double>(n), {}};", Some("v")),
            ("Row(long n = 3) : x(new double[n]), v(n) {}", Some("x|v")),
            ("f(a) ? g(b) : h(new double[n]);", None),
            ("case f(1): g(new double[n]);", None),
            ("rows[i] = {new double[n], n};", Some("rows[i]")),
            ("std::for_each(b, e, [&](int i) { rows[i] = new double[i]; });", Some("rows[i]")),
            ("std::string text = name + suffix;", Some("text")),
            ("text += suffix;", Some("text")),
            ("Kokkos::View<double*> x(\"x\", n);", Some("x")),
            ("std::map<int, double> m;", Some("m")),
            ("return new T[n];", None),
            ("int n = f(x);", None),
            ("double s = a.sum();", None),
            ("solve(a, b);", None),
            ("void *operator new(size_t n) { return malloc(n); }", None),
        ],
    );
}

#[test]
fn elements_are_named_by_what_they_are_elements_of() {
    check(
        Language::Cpp,
        &[
            ("for (auto &c : cells) c.resize(n);", Some("cells[]")),
            ("for (auto& c : grid->cells) {\n  int n = f(c);\n  @c.resize(n);\n}", Some("grid->cells[]")),
            (
                "for (Row &row : rows)\n  for (auto &&cell : row.cells)\n    @cell.v = new int[n];",
                Some("rows[].cells[].v"),
            ),
            ("for (auto &[key, list] : lists) list.push_back(1);", Some("lists[]")),
            ("for (auto &c : std::span(cells)) c.resize(n);", Some("c")),
            // The inner loop declares the name.
            ("for (auto &c : cells)\n  for (auto c : copies(c))\n    @c.resize(n);", Some("c")),
            ("for (auto &c : cells)\n  for (auto &c : made(n))\n    @c.resize(n);", Some("c")),
            // A loop by value makes copies. A loop that counts declares no element. After a loop its names mean something else.
            ("for (auto c : cells) c.resize(n);", Some("c")),
            ("for (auto &c : cells) {\n  f(c);\n}\n@c.resize(n);", Some("c")),
            ("for (auto &c : cells)\n  f(c);\n@c.resize(n);", Some("c")),
            ("for (int i = 0; i < n; i++) rows[i].resize(n);", Some("rows[i]")),
            ("for (auto &c : cells) {\n  @rows[k].resize(n);\n}", Some("rows[k]")),
            ("for (auto &c : cells) {\n  @cc.resize(n);\n}", Some("cc")),
        ],
    );
}

#[test]
fn fortran_statements_name_what_they_allocate() {
    check(
        Language::Fortran { fixed: false },
        &[
            ("allocate(a(n,m))", Some("a")),
            ("  ALLOCATE ( a(n,m), b(n), stat = ierr )", Some("a|b")),
            ("allocate(real(8) :: grid%u(0:n+1))", Some("grid%u")),
            ("allocate(block(i)%u(n,m), source=0d0)", Some("block(i)%u")),
            ("allocate(a(n), & ! first\n      @b(n))", Some("a|b")),
            ("allocate(a(n), &\n   ! a comment\n   &    @ b(n))\ncall f()", Some("a|b")),
            ("if (n > 0) allocate(work(n))", Some("work")),
            ("a = b + c", Some("a")),
            ("a(:) = b ! allocate(x(n))", Some("a")),
            ("print *, 'allocate(x(n))'", None),
            ("call init(a)", None),
            ("real(8), allocatable :: u(:)", None),
            ("end do", None),
        ],
    );
    check(
        Language::Fortran { fixed: true },
        &[
            ("      allocate(a(n),\n     &   @b(n))", Some("a|b")),
            ("c     allocate(a(n))", None),
            ("      ALLOCATE(A(N))", Some("A")),
        ],
    );
}

#[test]
fn a_column_tells_allocations_of_one_line_apart() {
    let line = "double *a = malloc(n), *b = malloc(m);";
    let at = |what: &str| line.find(what).map_or(0, |i| i as u32 + 1);
    for (column, expected) in [(at("malloc(n)"), "a"), (at("malloc(m)"), "b"), (0, "a|b"), (999, "a|b")] {
        let found = receiver(line, 1, column, Language::C);
        assert_eq!(found.as_deref(), Some(expected));
    }
    let line = "Row(long n) : x(new double[n]), v(n) {}";
    for (what, expected) in [("x(", "x"), ("new", "x"), ("v(", "v")] {
        let column = line.find(what).map_or(0, |i| i as u32 + 1);
        assert_eq!(receiver(line, 1, column, Language::Cpp).as_deref(), Some(expected), "{what}");
    }
    let line = "std::vector<double> a(n), b(n);";
    for (column, expected) in [(21, "a"), (24, "a"), (27, "b"), (30, "b")] {
        let found = receiver(line, 1, column, Language::Cpp);
        assert_eq!(found.as_deref(), Some(expected), "{column}");
    }
}

#[test]
fn broken_text_gives_no_panic() {
    let text = "std::vector<double> a(n), *b = (x*)malloc(m[{\"'/* \\\n#define x \\\nallocate(a(n),&\n)]}>=<";
    for language in
        [Language::C, Language::Cpp, Language::Fortran { fixed: false }, Language::Fortran { fixed: true }]
    {
        for from in 0..text.len() {
            for to in from..text.len() {
                for (line, column) in [(1, 0), (1, 9), (2, 3), (3, 1), (u32::MAX, u32::MAX)] {
                    let _ = receiver(&text[from..to], line, column, language);
                }
            }
        }
    }
}
