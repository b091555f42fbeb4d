package schemas_test

import (
	"errors"
	"fmt"

	"github.com/loopd/loopd/schemas"
)

func ExampleSet_Input() {
	set, err := schemas.Load()
	if err != nil {
		panic(err)
	}
	err = set.Input("service", []byte(`{"input_id":"in-1","kind":"service","text":"It rains."}`))
	var invalid *schemas.ValidationError
	if errors.As(err, &invalid) {
		fmt.Println(invalid.Field, "-", invalid.Hint)
	}
	// Output: source - is required, and missing
}
