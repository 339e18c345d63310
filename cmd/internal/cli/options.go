package cli

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Runner is what a command does, and what it was told: the exported fields are its flags.
type Runner interface {
	Run(ctx context.Context, p *Program, args []string) error
}

// New is a command of this usage. Each exported field of do is a flag, also those of structs in it: NoWait is --no-wait. One
// with the name of a connection flag has the command understand that. A *cobra.Command becomes the command itself. What the
// help says of a flag is in the page of helps. A do with a method Adjust is asked what else there is to say of the command. Tags
// say more:
//
//	flag:"run"         its name, or - for a field that is no flag
//	short:"f"          its letter
//	default:"30s"      its value where none is given
//	least:"1s"         the least that a number or a duration may be
//	words:"info warn"  the words that it may be, and placeholder:"LEVEL" what the help calls them
//	commas:"apart"     of several texts: one flag may give them, with commas
//	not:"since until"  flags beside which it cannot be given
//	how:"given"        of connection flags: only the command line says them, since they name something else
//	how:"own"          it has the name of a connection flag, and is none
func New(p *Program, use string, do Runner, children ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use}
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return do.Run(cmd.Context(), p, args) }
	cmd.AddCommand(children...)
	if of, has := do.(interface{ Adjust(*cobra.Command) }); has {
		of.Adjust(cmd)
	}
	declare(cmd, reflect.ValueOf(do).Elem(), ambient)
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		for _, other := range flag.Annotations[apart] {
			if other != flag.Name {
				cmd.MarkFlagsMutuallyExclusive(flag.Name, other)
			}
		}
	})
	return cmd
}

// apart is the annotation of a flag that has those beside which it cannot be given.
const apart = "apart"

// declare makes the fields of a struct flags of cmd.
func declare(cmd *cobra.Command, of reflect.Value, how string) {
	for i := range of.NumField() {
		field, at := of.Type().Field(i), of.Field(i)
		name, how := cmp.Or(field.Tag.Get("flag"), strings.ToLower(wordBorder.ReplaceAllString(field.Name, "$1-$2"))), cmp.Or(field.Tag.Get("how"), how)
		switch {
		case name == "-" || !field.IsExported() && !field.Anonymous:
			continue
		case field.Type == reflect.TypeFor[*cobra.Command]():
			at.Set(reflect.ValueOf(cmd))
			continue
		case field.Type.Kind() == reflect.Struct && !reflect.PointerTo(field.Type).Implements(reflect.TypeFor[pflag.Value]()):
			declare(cmd, at, how)
			continue
		}
		variable := at.Addr().Interface()
		if value, is := variable.(pflag.Value); is {
			prepare(value, field.Tag)
		}
		switch {
		case name == "wait":
			takeWait(cmd, variable.(*DurationFlag))
		case how != own && slices.Contains(connectionFlags, name):
			into := variable.(*string)
			take(cmd, how, []string{name}, func(_, value string) { *into = value })
		default:
			declareFlag(cmd, variable, name, field.Tag)
			_ = cmd.Flags().SetAnnotation(name, apart, strings.Fields(field.Tag.Get("not"))) // the flag is there
		}
	}
}

// declareFlag makes a variable a flag of cmd.
func declareFlag(cmd *cobra.Command, variable any, name string, tag reflect.StructTag) {
	flags, short := cmd.Flags(), tag.Get("short")
	switch v := variable.(type) {
	case *bool:
		flags.BoolVarP(v, name, short, false, "")
	case *string:
		flags.StringVarP(v, name, short, tag.Get("default"), "")
	case *int:
		standard, _ := strconv.Atoi(tag.Get("default")) // none is 0
		flags.IntVarP(v, name, short, standard, "")
	case *uint64:
		flags.Uint64VarP(v, name, short, 0, "")
	case *[]string:
		if tag.Get("commas") != "" {
			flags.StringSliceVarP(v, name, short, nil, "")
		} else {
			flags.StringArrayVarP(v, name, short, nil, "")
		}
	case pflag.Value:
		flags.VarP(v, name, short, "")
	default:
		panic(fmt.Sprintf("--%s: %T is no type of a flag", name, variable))
	}
	if w, is := variable.(*WordFlag); is {
		Complete(cmd, name, cobra.FixedCompletions(w.Words, cobra.ShellCompDirectiveNoFileComp))
	}
}

// prepare sets what tags say of a flag.
func prepare(value pflag.Value, tag reflect.StructTag) {
	least := tag.Get("least")
	switch v := value.(type) {
	case *NumberFlag:
		v.Least, _ = strconv.Atoi(least) // none is 0
	case *DurationFlag:
		v.Least, _ = time.ParseDuration(least)
	case *WordFlag:
		if words := tag.Get("words"); words != "" {
			v.Words, v.Name = strings.Fields(words), tag.Get("placeholder")
		}
	}
	if standard := tag.Get("default"); standard != "" {
		if err := value.Set(standard); err != nil {
			panic(err)
		}
	}
}

var wordBorder = regexp.MustCompile(`([a-z0-9])([A-Z])`)
